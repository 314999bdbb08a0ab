// Send work requests: what a caller asks for, whether it can be, and its bytes in the ring.
// Callers: send_queue, the C face, hosts and kernels that keep their own indices. Threads: any,
// each with its own range of the ring; nothing here has state. Always true: what check() refuses
// writes nothing; a request writes exactly its octowords, the last ones padded with zeros, and goes
// on at the ring's begin when it passes the end; nothing is published here (doorbell.hpp does
// that).
#pragma once

#include <cstdint>

#include "lci/wqe/layout.hpp"
#include "lci/wqe/status.hpp"

namespace lci::wqe {

// A piece of registered local memory (scatter/gather entry). One of length 0 is not written.
struct sge {
  std::uint64_t laddr = 0;
  std::uint64_t length = 0;  // wider than the format, so that what is too long is seen
  std::uint32_t lkey = 0;
};

// Operands, in host order. Those of 4 bytes are in the low half.
struct atomic_operands {
  std::uint64_t swap_add = 0;  // what is written, or added
  std::uint64_t compare = 0;
  // Of the masked forms: which bits are compared and written. Of fetch and add: `compare_mask` is
  // the field boundary, the bits that carry nothing to the next one.
  std::uint64_t swap_mask = 0;
  std::uint64_t compare_mask = 0;
  std::uint32_t size = 8;  // bytes, 4 only in the masked forms
};

struct send_request {
  opcode op = opcode::nop;
  std::uint32_t qpn = 0;  // queue pair or send queue
  bool signaled = true;   // a completion comes
  bool solicited = false;
  fence_mode fence = fence_mode::none;
  std::uint32_t imm = 0;    // host order; of send_inval the key to invalidate
  std::uint64_t raddr = 0;  // or an offset, if the key begins at 0
  std::uint32_t rkey = 0;
  const sge* entries = nullptr;
  std::uint32_t entry_count = 0;
  // Bytes that travel in the request itself, in place of entries.
  const void* inline_data = nullptr;
  std::uint32_t inline_length = 0;
  bool inline_is_gpu_memory = false;  // a GPU can read it, a processor refuses
  atomic_operands atomic;
};

struct send_limits {
  std::uint32_t max_inline = DEFAULT_MAX_INLINE;    // of the queue pair
  std::uint64_t max_message = DEFAULT_MAX_MESSAGE;  // of the port, at most MAX_BYTE_COUNT
};

// A ring of basic blocks in memory that the card reads.
struct send_ring {
  void* base = nullptr;      // aligned to a block
  std::uint32_t blocks = 0;  // a power of two, at most MAX_RING_BLOCKS
};

// What was written, and what a doorbell needs of it.
struct written_wqe {
  std::uint32_t octowords = 0;
  std::uint32_t blocks = 0;
  std::uint64_t next_index = 0;
  std::uint64_t doorbell = 0;  // the first 8 bytes of the control segment, as they are in memory
};

LCI_ANYWHERE constexpr bool has_remote_address(opcode op) noexcept {
  return op == opcode::rdma_write || op == opcode::rdma_write_imm || op == opcode::rdma_read ||
         op == opcode::atomic_cs || op == opcode::atomic_fa || op == opcode::atomic_masked_cs ||
         op == opcode::atomic_masked_fa;
}
LCI_ANYWHERE constexpr bool is_masked(opcode op) noexcept {
  return op == opcode::atomic_masked_cs || op == opcode::atomic_masked_fa;
}
LCI_ANYWHERE constexpr bool is_atomic(opcode op) noexcept {
  return op == opcode::atomic_cs || op == opcode::atomic_fa || is_masked(op);
}
LCI_ANYWHERE constexpr bool takes_inline(opcode op) noexcept {
  return op == opcode::rdma_write || op == opcode::rdma_write_imm || op == opcode::send ||
         op == opcode::send_imm || op == opcode::send_inval;
}
LCI_ANYWHERE constexpr bool takes_imm(opcode op) noexcept {
  return op == opcode::rdma_write_imm || op == opcode::send_imm || op == opcode::send_inval;
}
LCI_ANYWHERE constexpr bool is_known(opcode op) noexcept {
  return has_remote_address(op) || takes_inline(op) || op == opcode::nop || op == opcode::dump;
}
// Octowords of the operands alone.
LCI_ANYWHERE constexpr std::uint32_t operand_octowords(opcode op, std::uint32_t size) noexcept {
  if (!is_atomic(op)) return 0;
  return op == opcode::atomic_masked_cs && size == 8 ? 2 : 1;
}

// Not cut to what the size field holds, so that check() sees what is too long.
LCI_ANYWHERE inline std::uint64_t octowords_of(const send_request& r) noexcept {
  std::uint64_t n = 1 + has_remote_address(r.op) + operand_octowords(r.op, r.atomic.size);
  if (r.inline_length != 0)
    return n + (std::uint64_t{r.inline_length} + sizeof(std::uint32_t) + OCTOWORD_SIZE - 1) /
                   OCTOWORD_SIZE;
  for (std::uint32_t i = 0; i < r.entry_count; ++i) n += r.entries[i].length != 0;
  return n;
}

LCI_ANYWHERE inline status check_atomic(const send_request& r) noexcept {
  const std::uint32_t size = r.atomic.size;
  if (size != 8 && !(size == 4 && is_masked(r.op))) return status::bad_atomic_length;
  if (r.entry_count != 1) return status::bad_entry_count;
  if (r.entries[0].length != size) return status::bad_atomic_length;
  return r.raddr % size == 0 ? status::ok : status::misaligned_atomic;
}

LCI_ANYWHERE inline status check_data(const send_request& r, const send_limits& limits) noexcept {
  if (r.inline_length != 0) {
    if (!takes_inline(r.op)) return status::inline_without_meaning;
    if (r.entry_count != 0) return status::bad_entry_count;
    if (r.inline_length > limits.max_inline) return status::inline_too_long;
    if (r.inline_is_gpu_memory && !runs_on_gpu()) return status::inline_from_device;
  }
  if (r.op == opcode::nop && r.entry_count != 0) return status::bad_entry_count;
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < r.entry_count; ++i) {
    // One after the other, so that no sum runs over.
    if (r.entries[i].length > MAX_BYTE_COUNT) return status::bad_length;
    total += r.entries[i].length;
    if (total > limits.max_message) return status::bad_length;
  }
  return is_atomic(r.op) ? check_atomic(r) : status::ok;
}

LCI_ANYWHERE inline status check_ring(const send_ring& ring) noexcept {
  return is_power_of_two(ring.blocks) && ring.blocks <= MAX_RING_BLOCKS ? status::ok
                                                                        : status::bad_ring;
}

// What a card would not understand, or understand as something else.
LCI_ANYWHERE inline status check(const send_ring& ring, const send_request& r,
                                 const send_limits& limits) noexcept {
  if (const status s = check_ring(ring); s != status::ok) return s;
  if (!is_known(r.op)) return status::bad_opcode;
  if (r.qpn > MAX_QPN) return status::bad_qpn;
  if (!is_known(r.fence)) return status::bad_fence;
  if (const status s = check_data(r, limits); s != status::ok) return s;
  const std::uint64_t octowords = octowords_of(r);
  if (octowords > MAX_OCTOWORDS) return status::too_many_octowords;
  return blocks_of(static_cast<std::uint32_t>(octowords)) <= ring.blocks ? status::ok
                                                                         : status::longer_than_ring;
}

// Octoword `k` of the request that begins with block `index`.
LCI_ANYWHERE inline octoword* octoword_at(const send_ring& ring, std::uint64_t index,
                                          std::uint32_t k) noexcept {
  const std::uint64_t place = index * OCTOWORDS_PER_BLOCK + k;
  return static_cast<octoword*>(ring.base) + (place & (ring.blocks * OCTOWORDS_PER_BLOCK - 1));
}

// Fills a request's octowords one after the other.
class wqe_writer {
 public:
  LCI_ANYWHERE wqe_writer(const send_ring& ring, std::uint64_t index) noexcept
      : ring_(ring), index_(index) {}
  LCI_ANYWHERE void add(const octoword& o) noexcept { *octoword_at(ring_, index_, used_++) = o; }
  // A header of 4 bytes, then the payload, which an octoword boundary may cut at any byte.
  LCI_ANYWHERE void add_inline(const void* data, std::uint32_t length) noexcept {
    const unsigned char* const from = static_cast<const unsigned char*>(data);
    octoword o{{be32(length | INLINE_FLAG), 0, 0, 0}};
    std::uint32_t at = 1;  // word
    for (std::uint32_t i = 0; i < length; i += 4, ++at) {
      if (at == OCTOWORD_SIZE / 4) {
        add(o);
        o = octoword{{0, 0, 0, 0}};
        at = 0;
      }
      o.word[at] = up_to_four_bytes(from + i, length - i);
    }
    add(o);
  }
  LCI_ANYWHERE std::uint32_t used() const noexcept { return used_; }

 private:
  // As they are in memory, and zeros behind them.
  LCI_ANYWHERE static std::uint32_t up_to_four_bytes(const unsigned char* from,
                                                     std::uint32_t count) noexcept {
#ifdef __CUDA_ARCH__
    if (count >= 4 && reinterpret_cast<std::uintptr_t>(from) % 4 == 0)
      return *reinterpret_cast<const std::uint32_t*>(from);
#endif
    std::uint32_t word = 0;
    for (std::uint32_t i = 0; i < 4 && i < count; ++i)
      word |= be32(std::uint32_t{from[i]} << (24 - 8 * i));
    return word;
  }

  send_ring ring_;
  std::uint64_t index_;
  std::uint32_t used_ = 0;
};

LCI_ANYWHERE inline void add_operands(wqe_writer& out, opcode op,
                                      const atomic_operands& a) noexcept {
  if (op == opcode::atomic_cs) {
    out.add(segment_of(a.swap_add, a.compare));
  } else if (op == opcode::atomic_fa) {
    out.add(segment_of(a.swap_add, 0));
  } else if (op == opcode::atomic_masked_fa) {
    out.add(a.size == 4 ? four_words(a.swap_add, a.compare_mask, 0, 0)
                        : segment_of(a.swap_add, a.compare_mask));
  } else if (a.size == 4) {
    out.add(four_words(a.swap_add, a.compare, a.swap_mask, a.compare_mask));
  } else {
    out.add(segment_of(a.swap_add, a.compare));
    out.add(segment_of(a.swap_mask, a.compare_mask));
  }
}

// Writes a request that check() has found right into the ring at `index`, which counts blocks and
// never wraps: only its place in the ring and its 16 bits in the request do.
LCI_ANYWHERE inline written_wqe write_checked(const send_ring& ring, std::uint64_t index,
                                              const send_request& r) noexcept {
  const auto octowords = static_cast<std::uint32_t>(octowords_of(r));
  const std::uint8_t opmod = !is_masked(r.op)     ? 0
                             : r.atomic.size == 4 ? OPMOD_4_BYTES
                                                  : OPMOD_8_BYTES;
  const auto flags =
      static_cast<std::uint8_t>(static_cast<unsigned>(r.fence) | (r.signaled ? CQ_UPDATE : 0u) |
                                (r.solicited ? SOLICITED : 0u));
  const octoword control =
      control_segment(opmod, index, r.op, r.qpn, octowords, flags, takes_imm(r.op) ? r.imm : 0);
  wqe_writer out(ring, index);
  out.add(control);
  if (has_remote_address(r.op)) out.add(remote_address_segment(r.raddr, r.rkey));
  if (is_atomic(r.op)) add_operands(out, r.op, r.atomic);
  if (r.inline_length != 0) {
    out.add_inline(r.inline_data, r.inline_length);
  } else {
    for (std::uint32_t i = 0; i < r.entry_count; ++i) {
      const sge& e = r.entries[i];
      if (e.length == 0) continue;  // as rdma-core does; 0 would have a meaning of its own
      out.add(data_segment(static_cast<std::uint32_t>(e.length), e.lkey, e.laddr));
    }
  }
  const std::uint32_t blocks = blocks_of(octowords);
  return {octowords, blocks, index + blocks, joined(control.word[0], control.word[1])};
}

// Checks, then writes. `out` is changed on success alone.
LCI_ANYWHERE inline status write_send_wqe(const send_ring& ring, std::uint64_t index,
                                          const send_request& r, const send_limits& limits,
                                          written_wqe* out) noexcept {
  const status s = check(ring, r, limits);
  if (s == status::ok) *out = write_checked(ring, index, r);
  return s;
}

}  // namespace lci::wqe
