// The processor's part in tier T1: kernels leave the index of the next free block in a mailbox, and
// this tells the card. Callers: direct_queue. Threads: single; kernels raise the mailbox meanwhile.
// Always true: the card is told of a block once, after all before it; a mailbox that says more than
// a ring is believed no further than that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lci/wqe/doorbell.hpp"

namespace lci::ibv {

class mailbox_ringer {
 public:
  // bell: the card's, not the mailbox.
  mailbox_ringer(const wqe::send_ring& ring, std::uint64_t* mailbox, const wqe::doorbell& bell)
      : ring_(ring), mailbox_(mailbox), bell_(bell) {}

  // Returns how many requests it has rung for.
  std::size_t progress_st() noexcept {
    // edge wqe.requests, other side in ring_doorbell() of lci/wqe: the requests are seen that the
    // kernel has written.
    const std::uint64_t said =
        wqe::word_at<std::uint64_t>(mailbox_).load(std::memory_order_acquire);
    if (said <= rung_) return 0;
    const std::uint64_t until = std::min(said, rung_ + ring_.blocks);
    std::size_t count = 0;
    // What the register gets is of the last request, which the mailbox does not tell.
    std::uint64_t last = rung_;
    for (std::uint64_t at = rung_; at < until; ++count) {
      last = at;
      const std::uint32_t octowords =
          wqe::be32(wqe::octoword_at(ring_, at, 0)->word[1]) & wqe::MAX_OCTOWORDS;
      at += std::max(wqe::blocks_of(octowords), 1u);
    }
    wqe::ring_doorbell(bell_, ring_, {until, last, count == 1}, offset_);
    rung_ = until;
    return count;
  }

 private:
  wqe::send_ring ring_;
  std::uint64_t* mailbox_;
  wqe::doorbell bell_;
  std::uint64_t rung_ = 0;    // block
  std::uint32_t offset_ = 0;  // half of a BlueFlame register
};

}  // namespace lci::ibv
