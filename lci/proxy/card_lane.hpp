// A queue of an endpoint that a card reads, tiers T0 to T2: the other end of it at its rank, the
// processor's part of its tier, and how the host learns of an error. Callers: endpoint. Threads:
// single, beside the threads that post. Always true: completions belong to the threads that post;
// the host reads of them what the queue's state says, and drains only once kernels are over; what
// was made at the other rank is told to go when the lane goes.
#pragma once

#include <memory>

#include "lci/net/kernel_card.hpp"
#include "lci/proto/host/card_pairs.hpp"
#include "lci/runtime/device.hpp"

namespace lci::proxy {

class card_lane {
 public:
  // To itself it is connected at once; another rank is asked for the other end. Throws
  // backend_error.
  card_lane(device_impl_t& device, int rank, const net::kernel_queue_options& wanted);
  ~card_lane();
  card_lane(const card_lane&) = delete;
  card_lane& operator=(const card_lane&) = delete;

  // Makes progress until the other rank has answered, and connects to what it has made. Throws
  // tier_error, tier_peer_error, and what progress throws.
  void connect();

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
  device_impl_t& device_;
  const int rank_;
  std::unique_ptr<net::kernel_queue> queue_;
  // For the host's own calls, which have no abort flag: it may be in memory of a GPU.
  wqe::send_queue here_;
  // What was asked of the other rank, and what it has made.
  proto::card_question question_;
  bool is_connected_ = false;
  proto::wire::name pair_;
  bool was_told_ = false;
  bool was_flushed_ = false;
};

// The answer of that rank. Makes progress until it is there. Throws tier_error where it is not
// `done`, tier_peer_error: that rank has ended, and what progress throws; no thread has the
// question then.
const proto::wire::card_answer& ask(device_impl_t& device, proto::card_question& question);

}  // namespace lci::proxy
