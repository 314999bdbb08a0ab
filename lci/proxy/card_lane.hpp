// A queue of an endpoint that a card reads, tiers T0 to T2: the processor's part of its tier, and
// how the host hears of an error. Callers: endpoint. Threads: single, beside the threads that post.
// Always true: completions belong to who posts; the host reads of them what the queue's state says,
// and drains only once kernels are over.
#pragma once

#include <memory>

#include "lci/net/kernel_card.hpp"

namespace lci::proxy {

class card_lane {
 public:
  // Connected to itself. Throws backend_error.
  card_lane(net::kernel_card& card, const net::kernel_queue_options& wanted);

  // As threads of the process, or kernels, post to it.
  const wqe::send_queue& for_posters(bool is_for_gpu) const noexcept {
    return is_for_gpu ? queue_->at_gpu() : queue_->here();
  }
  std::uint32_t max_inline() const noexcept { return here_.limits.max_inline; }
  std::size_t progress_st() noexcept { return queue_->progress_st(); }
  // All that was posted has ended, or the queue. No thread posts any more: a request that asks for
  // a completion comes behind those that did not.
  bool is_idle_st() noexcept;
  // The card has reported an error, and this was not asked since.
  bool take_error(wqe::completion* error) noexcept;
  void end() noexcept { wqe::end(here_, wqe::status::aborted); }

 private:
  std::unique_ptr<net::kernel_queue> queue_;
  // For the host's own calls, which have no abort flag: it may be in memory of a GPU.
  wqe::send_queue here_;
  bool was_told_ = false;
  bool was_flushed_ = false;
};

}  // namespace lci::proxy
