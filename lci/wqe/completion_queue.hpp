// A completion queue in memory: is entry `ci` there, what does it say, how is it given back.
// Callers: send_queue, the C face, pollers of hosts and kernels, each with its own index. Threads:
// poll() any; one consumer at a time calls give_back().
// Always true: nothing is ever written into an entry, so hardware and software agree who owns it;
// an entry's bytes are read after the word that says it is there.
#pragma once

#include <cstdint>

#include "lci/wqe/cqe.hpp"
#include "lci/wqe/processor.hpp"
#include "lci/wqe/status.hpp"

namespace lci::wqe {

struct completion_queue {
  void* base = nullptr;
  std::uint32_t count = 0;              // a power of two
  std::uint32_t entry_size = CQE_SIZE;  // or LARGE_CQE_SIZE
  std::uint32_t* record = nullptr;      // the consumer's and the arm word
};

LCI_ANYWHERE constexpr status check(const completion_queue& cq) noexcept {
  if (cq.entry_size != CQE_SIZE && cq.entry_size != LARGE_CQE_SIZE) return status::bad_cqe_size;
  return is_power_of_two(cq.count) ? status::ok : status::bad_ring;
}

// The 16 words that are decoded.
LCI_ANYWHERE inline std::uint32_t* words_of(const completion_queue& cq, std::uint64_t ci) noexcept {
  const std::uint64_t begin = (ci & (cq.count - 1)) * cq.entry_size + cq.entry_size - CQE_SIZE;
  return static_cast<std::uint32_t*>(cq.base) + begin / sizeof(std::uint32_t);
}

// Before the card knows of the queue.
LCI_ANYWHERE inline void make_unused(const completion_queue& cq) noexcept {
  for (std::uint32_t i = 0; i < cq.count; ++i) words_of(cq, i)[CQE_OWNER] = be32(CQE_UNUSED);
}

// What an entry says whose owner word was found. edge wqe.completion, other side in the card: the
// caller has acquired that word.
LCI_ANYWHERE inline status read_entry(std::uint32_t* words, std::uint32_t owner,
                                      completion* out) noexcept {
  from_card_barrier();
  std::uint32_t copy[CQE_SIZE / sizeof(std::uint32_t)];
  // Relaxed: the other words are read after the owner word.
  for (std::uint32_t i = 0; i < CQE_OWNER; ++i)
    copy[i] = word_at<std::uint32_t>(words + i).load(std::memory_order_relaxed);
  copy[CQE_OWNER] = owner;
  *out = decode(copy);
  return is_error(out->kind) ? status::failed : status::ok;
}

// nothing: entry `ci` is not there yet. ok or failed: `out` is what it says.
// edge wqe.completion, other side in the card: what it wrote into the entry, and into memory before
// it, is seen by a thread that has found the owner word.
LCI_ANYWHERE inline status poll(const completion_queue& cq, std::uint64_t ci,
                                completion* out) noexcept {
  std::uint32_t* const words = words_of(cq, ci);
  const std::uint32_t owner =
      word_at<std::uint32_t>(words + CQE_OWNER).load(std::memory_order_acquire);
  return is_ready(be32(owner), ci, cq.count) ? read_entry(words, owner, out) : status::nothing;
}

// The only entry of a collapsed queue: no owner bit, the counter tells. nothing: none came yet.
// edge wqe.completion, other side in the card.
LCI_ANYWHERE inline status poll_collapsed(const completion_queue& cq, completion* out) noexcept {
  std::uint32_t* const words = words_of(cq, 0);
  const std::uint32_t owner =
      word_at<std::uint32_t>(words + CQE_OWNER).load(std::memory_order_acquire);
  return kind_of(be32(owner)) != cqe_opcode::invalid ? read_entry(words, owner, out)
                                                     : status::nothing;
}

LCI_ANYWHERE constexpr std::uint32_t consumer_record(std::uint64_t ci) noexcept {
  return be32(static_cast<std::uint32_t>(ci & 0xffffff));  // 24 bits, other than work queues
}

// Entries before `ci` may be overwritten. At the latest before the card runs into them.
// edge wqe.returned, other side in the card: entries are read before they are given back.
LCI_ANYWHERE inline void give_back(const completion_queue& cq, std::uint64_t ci) noexcept {
  word_at<std::uint32_t>(cq.record + CONSUMER_RECORD)
      .store(consumer_record(ci), std::memory_order_release);
}

// What asks for an event with the next completion: the arm word of the record, and 8 bytes for the
// register at ARM_UAR_OFFSET. For hosts; a poller in a kernel arms nothing.
struct arm_request {
  std::uint32_t record;
  std::uint64_t doorbell;
};
LCI_ANYWHERE constexpr arm_request arm(std::uint32_t sequence, bool solicited_only,
                                       std::uint64_t ci, std::uint32_t cqn) noexcept {
  const std::uint32_t value = be32((sequence & 3) << 28 | (solicited_only ? 1u << 24 : 0u) |
                                   static_cast<std::uint32_t>(ci & 0xffffff));
  return {value, joined(value, be32(cqn))};
}

}  // namespace lci::wqe
