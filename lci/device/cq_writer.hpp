// The card's side of a completion queue: writes entries as hardware does, and never into one that
// has not been given back. Callers: card_queue, receiver. Threads: single.
// Always true: the word with the owner bit is stored last, so an entry is whole when it is seen; a
// completion queue has one writer, which counts alone: two halves cannot share one.
#pragma once

#include <cstdint>

#include "lci/wqe/completion_queue.hpp"

namespace lci::device {

class cq_writer {
 public:
  explicit cq_writer(const wqe::completion_queue& cq) : cq_(cq) {}

  bool is_full() const noexcept { return !has_room_beside(0); }
  // For one more than those `expected`, which are not written yet. edge wqe.returned, other side in
  // the program's consumer, give_back() of lci/wqe.
  bool has_room_beside(std::uint32_t expected) const noexcept {
    const std::uint32_t returned =
        wqe::be32(wqe::word_at<std::uint32_t>(cq_.record + wqe::CONSUMER_RECORD)
                      .load(std::memory_order_acquire));
    return ((produced_ - returned) & 0xffffff) + expected < cq_.count;
  }

  // Not while is_full(). `c.wqe_counter` and the rest as decode() reads them.
  void write(const wqe::completion& c) noexcept {
    std::uint32_t words[wqe::CQE_OWNER] = {};
    words[wqe::CQE_SOURCE] = c.source_qp;
    words[wqe::CQE_SRQN] = c.srqn;
    words[wqe::CQE_QPN] = std::uint32_t{c.send_opcode} << 24 | c.qpn;
    if (is_error(c.kind)) {
      words[wqe::CQE_SYNDROME] =
          std::uint32_t{c.vendor_error} << 8 | static_cast<std::uint32_t>(c.error);
    } else {
      words[wqe::CQE_IMM] = c.imm;
      words[wqe::CQE_BYTES] = c.byte_count;
    }
    std::uint32_t* const to = wqe::words_of(cq_, produced_);
    // Relaxed: they are seen with the word behind them.
    for (std::uint32_t i = 0; i < wqe::CQE_OWNER; ++i)
      wqe::word_at<std::uint32_t>(to + i).store(wqe::be32(words[i]), std::memory_order_relaxed);
    const std::uint32_t owner =
        std::uint32_t{c.wqe_counter} << 16 | static_cast<std::uint32_t>(c.kind) << 4 |
        (c.solicited ? wqe::SOLICITED : 0u) | wqe::expected_owner(produced_, cq_.count);
    // edge wqe.completion, other side in poll() of lci/wqe.
    wqe::word_at<std::uint32_t>(to + wqe::CQE_OWNER)
        .store(wqe::be32(owner), std::memory_order_release);
    ++produced_;
  }
  std::uint64_t produced() const noexcept { return produced_; }

 private:
  wqe::completion_queue cq_;
  std::uint64_t produced_ = 0;
};

}  // namespace lci::device
