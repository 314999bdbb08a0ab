// The short way of what programs post one at a time: a word or two to put, a signal, a message of a
// few words, by a thread that no other lane of its warp accompanies. Callers: the calls of this
// room. Threads: any. Always true: the bytes in the queue are those that the general way writes,
// and the promises those of posting.hpp.
//
// A thread of a GPU takes some 5 ns for each instruction, and the general way, which has requests
// in memory and loops over them, 3.5 us for what is here made of values in registers.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lci/gpu/message.hpp"
#include "lci/gpu/posting.hpp"

namespace lci::gpu::detail {

// Bytes that go this way: of a put and of a message. With them a put is one block, and the longest
// message two.
inline constexpr std::uint32_t MOST_SHORT_PUT = 12, MOST_SHORT_MESSAGE = 20;

// As they are in memory, and zeros behind them.
template <std::uint32_t WORDS>
struct short_bytes {
  std::uint32_t word[WORDS] = {};
};
template <std::uint32_t WORDS, class T>
LCI_ANYWHERE short_bytes<WORDS> bytes_of(const T& value) noexcept {
  static_assert(sizeof(T) <= 4 * WORDS, "they fit");
  short_bytes<WORDS> b;
  std::memcpy(b.word, &value, sizeof(T));
  return b;
}

LCI_ANYWHERE inline wqe::octoword short_control(const wqe::send_queue& q, std::uint64_t base,
                                                wqe::opcode op, std::uint32_t octowords,
                                                wqe::fence_mode fence, std::uint32_t imm) noexcept {
  const bool is_signaled = wqe::must_signal(base, wqe::blocks_of(octowords), q.ring.blocks);
  const auto flags =
      static_cast<std::uint8_t>(static_cast<unsigned>(fence) | (is_signaled ? wqe::CQ_UPDATE : 0u));
  return wqe::control_segment(0, base, op, q.qpn, octowords, flags, imm);
}

// A write of at most MOST_SHORT_PUT bytes that travel in the request.
struct short_put {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t size = 0;  // 0: there is none
  short_bytes<MOST_SHORT_PUT / 4> bytes;
  // Where they are, whole words; null: in `bytes`. So they are read beside what is read of the
  // queue: a call waits for all that was read before it.
  const std::uint32_t* from = nullptr;
};
// Whether a put goes this way: whole words that this thread can read. Not over a card, which may
// take fewer bytes in a request.
LCI_ANYWHERE inline bool is_short(const record_words& record, const found_place& from,
                                  std::uint64_t size) noexcept {
  return record.over_card == 0 && size <= MOST_SHORT_PUT && size <= record.max_inline &&
         from.mapped != 0 && (size | from.mapped) % sizeof(std::uint32_t) == 0;
}
LCI_ANYWHERE inline short_put short_of(const found_place& to, const found_place& from,
                                       std::uint32_t size) noexcept {
  return {to.address, to.key, size, {}, static_cast<const std::uint32_t*>(pointer(from.mapped))};
}
template <class T>
LCI_ANYWHERE short_put short_of(const found_place& to, const T& value) noexcept {
  return {to.address, to.key, sizeof(T), bytes_of<MOST_SHORT_PUT / 4>(value), nullptr};
}
// Reads the bytes that are in memory.
LCI_ANYWHERE inline void fetch(short_put& put) noexcept {
  if (put.from == nullptr) return;
  for (std::uint32_t i = 0; i < MOST_SHORT_PUT / 4; ++i) {
    if (4 * i >= put.size) continue;
#ifdef __CUDA_ARCH__
    put.bytes.word[i] = put.from[i];
#else
    std::memcpy(&put.bytes.word[i], put.from + i, sizeof(std::uint32_t));
#endif
  }
}
LCI_ANYWHERE inline void write_short(const wqe::send_queue& q, std::uint64_t base,
                                     const short_put& put, wqe::fence_mode fence) noexcept {
  *octoword_at(q.ring, base, 0) = short_control(q, base, wqe::opcode::rdma_write, 3, fence, 0);
  *octoword_at(q.ring, base, 1) = wqe::remote_address_segment(put.address, put.key);
  *octoword_at(q.ring, base, 2) = {{wqe::be32(put.size | wqe::INLINE_FLAG), put.bytes.word[0],
                                    put.bytes.word[1], put.bytes.word[2]}};
}

// A put, a signal, or both in this order. Of a signal 8 bytes are set.
LCI_ANYWHERE_ONCE inline status post_short_put(const peer_record& peer, short_put put,
                                               short_put signal) noexcept {
  fetch(put);
  const std::uint32_t before = put.size != 0 ? 1 : 0;
  const std::uint32_t blocks = before + (signal.size != 0 ? 1 : 0);
  std::uint64_t end = 0;
  const status s =
      post_by_one(peer.queue, blocks, 1, &end, [&](const wqe::send_queue& q, std::uint64_t base) {
        if (put.size != 0) write_short(q, base, put, wqe::fence_mode::none);
        if (signal.size != 0) write_short(q, base + before, signal, wqe::fence_mode::small);
      });
  return s == status::ok ? s : refusal_of(peer, s);
}

// A message of `size` bytes, at most MOST_SHORT_MESSAGE, none of them in registered memory.
LCI_ANYWHERE_ONCE inline status post_short_message(
    const peer_record& peer, message_kind kind, std::uint32_t rcomp, std::uint64_t tag,
    std::uint32_t size, short_bytes<MOST_SHORT_MESSAGE / 4> bytes) noexcept {
  const auto length = static_cast<std::uint32_t>(sizeof(message_head)) + size;
  const std::uint32_t octowords = size <= MOST_SHORT_MESSAGE - 16 ? 4 : 5;
  const std::uint32_t blocks = wqe::blocks_of(octowords);
  std::uint64_t end = 0;
  const status s = post_by_one(
      peer.queue, blocks, blocks, &end, [&](const wqe::send_queue& q, std::uint64_t base) {
        const std::uint32_t first =
            std::uint32_t{MESSAGE_VERSION} | static_cast<std::uint32_t>(kind) << 8 | size << 16;
        *octoword_at(q.ring, base, 0) = short_control(q, base, wqe::opcode::send_imm, octowords,
                                                      wqe::fence_mode::none, MESSAGE);
        *octoword_at(q.ring, base, 1) = {
            {wqe::be32(length | wqe::INLINE_FLAG), first, rcomp, static_cast<std::uint32_t>(tag)}};
        *octoword_at(q.ring, base, 2) = {{static_cast<std::uint32_t>(tag >> 32), 0, 0, 0}};
        // The head ends with a rank, which a receive alone names.
        *octoword_at(q.ring, base, 3) = {{0, 0, ~std::uint32_t{0}, bytes.word[0]}};
        if (octowords == 5)
          *octoword_at(q.ring, base,
                       4) = {{bytes.word[1], bytes.word[2], bytes.word[3], bytes.word[4]}};
      });
  return s == status::ok ? s : refusal_of(peer, s);
}

}  // namespace lci::gpu::detail
