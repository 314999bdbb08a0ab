// Inputs of the encoders as plain data that a kernel can be given or can make itself, and what is
// compared: the bytes that a request leaves in a small ring. Callers: tests/unit/wqe, and the same
// on a GPU in tests/accelerator. Threads: pure functions.
// Always true: random_input(seed, i) is the same on both sides.
#pragma once

#include <cstdint>

#include "lci/wqe/completion_queue.hpp"
#include "lci/wqe/doorbell.hpp"
#include "lci/wqe/recv_wqe.hpp"
#include "lci/wqe/send_wqe.hpp"

namespace lci::test {

inline constexpr std::uint32_t MOST_ENTRIES = 63, FEW_ENTRIES = 8, MOST_INLINE = 128;
inline constexpr std::uint32_t SMALL_RING = 4;

struct send_input {
  wqe::send_request request;  // its pointers are set by request_of()
  wqe::send_limits limits;
  std::uint64_t index;
  std::uint32_t ring_blocks;
  wqe::sge entries[MOST_ENTRIES];
  unsigned char payload[MOST_INLINE];
};

LCI_ANYWHERE inline wqe::send_request request_of(const send_input& in) {
  wqe::send_request r = in.request;
  r.entries = in.entries;
  r.inline_data = in.payload;
  return r;
}

// Small and quick, and the same on both sides (splitmix64, by Steele, Lea and Flood).
class random_numbers {
 public:
  LCI_ANYWHERE random_numbers(std::uint64_t seed, std::uint64_t salt)
      : state_(seed * 0x9e3779b97f4a7c15ull ^ salt * 0xd1342543de82ef95ull) {}
  LCI_ANYWHERE std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  LCI_ANYWHERE std::uint32_t below(std::uint32_t limit) {
    return static_cast<std::uint32_t>(next() % limit);
  }

 private:
  std::uint64_t state_;
};

// A right request of any operation, at any index, with values over the whole width of each field.
LCI_ANYWHERE inline send_input random_input(std::uint64_t seed, std::uint64_t i) {
  using wqe::opcode;
  const opcode all[] = {opcode::nop,       opcode::send_inval,       opcode::rdma_write,
                        opcode::send,      opcode::rdma_write_imm,   opcode::send_imm,
                        opcode::rdma_read, opcode::atomic_cs,        opcode::atomic_fa,
                        opcode::dump,      opcode::atomic_masked_cs, opcode::atomic_masked_fa};
  random_numbers random(seed, i);
  send_input in{};
  wqe::send_request& r = in.request;
  r.op = all[random.below(12)];
  r.qpn = random.below(wqe::MAX_QPN + 1);
  r.signaled = random.below(2) == 0;
  r.solicited = random.below(2) == 0;
  const std::uint32_t fence = random.below(3);
  r.fence = fence == 0   ? wqe::fence_mode::none
            : fence == 1 ? wqe::fence_mode::small
                         : wqe::fence_mode::full;
  r.imm = static_cast<std::uint32_t>(random.next());
  r.raddr = random.next();
  r.rkey = static_cast<std::uint32_t>(random.next());
  r.atomic.swap_add = random.next();
  r.atomic.compare = random.next();
  r.atomic.swap_mask = random.next();
  r.atomic.compare_mask = random.next();
  in.index = random.next() >> random.below(64);
  in.ring_blocks = SMALL_RING;
  in.limits = {MOST_INLINE, wqe::MAX_BYTE_COUNT};
  for (std::uint32_t k = 0; k < FEW_ENTRIES; ++k) {
    wqe::sge& e = in.entries[k];
    const bool is_empty = random.below(8) == 0;
    e.laddr = random.next();
    e.lkey = static_cast<std::uint32_t>(random.next());
    e.length = is_empty ? 0 : random.next() % (wqe::MAX_BYTE_COUNT / FEW_ENTRIES) + 1;
  }
  for (unsigned char& byte : in.payload) byte = static_cast<unsigned char>(random.next());
  if (wqe::is_atomic(r.op)) {
    if (wqe::is_masked(r.op) && random.below(2) == 0) r.atomic.size = 4;
    r.entry_count = 1;
    in.entries[0].length = r.atomic.size;
    r.raddr -= r.raddr % r.atomic.size;
  } else if (wqe::takes_inline(r.op) && random.below(2) == 0) {
    r.inline_length = random.below(MOST_INLINE + 1);
  } else if (r.op != opcode::nop) {
    r.entry_count = random.below(FEW_ENTRIES + 1);
  }
  return in;
}

// What one request leaves behind.
struct send_output {
  alignas(wqe::OCTOWORD_SIZE) unsigned char ring[SMALL_RING * wqe::BLOCK_SIZE];
  wqe::written_wqe written;
  std::uint64_t synthesized;
  std::uint32_t record;
  wqe::status answer;
};

// The bytes of the ring that are not written stay 0xee.
LCI_ANYWHERE inline void encode(const send_input& in, send_output* out) {
  for (unsigned char& byte : out->ring) byte = 0xee;
  const wqe::send_ring ring{out->ring, in.ring_blocks};
  out->written = {};
  out->answer = wqe::write_send_wqe(ring, in.index, request_of(in), in.limits, &out->written);
  out->synthesized = wqe::synthesized_doorbell(out->written.next_index, in.request.qpn);
  out->record = wqe::work_record(out->written.next_index);
}

}  // namespace lci::test
