#include "lci/proxy/card_lane.hpp"

namespace lci::proxy {

card_lane::card_lane(net::kernel_card& card, const net::kernel_queue_options& wanted)
    : queue_(card.make_queue(wanted)) {
  constexpr std::uint64_t SECOND = 1000000000;
  queue_->connect(queue_->address());
  here_ = queue_->here();
  here_.waits = {nullptr, SECOND};
}

bool card_lane::is_idle_st() noexcept {
  const wqe::send_queue& q = here_;
  queue_->progress_st();
  wqe::drain(q);
  // Relaxed, here and below: the threads that posted have ended.
  const auto value_of = [](std::uint64_t* word) {
    return wqe::word_at<std::uint64_t>(word).load(std::memory_order_relaxed);
  };
  const std::uint64_t reserved = value_of(&q.state->reserved), done = value_of(&q.state->done);
  if (reserved == done || wqe::ended_by(q) != wqe::status::ok) return true;
  // Not where it would wait for room.
  if (!was_flushed_ && reserved - done + wqe::MAX_BLOCKS < q.ring.blocks) {
    std::uint64_t end = 0;
    was_flushed_ = wqe::post(q, wqe::send_request{}, &end) == wqe::status::ok;
  }
  return false;
}

bool card_lane::take_error(wqe::completion* error) noexcept {
  const wqe::send_queue& q = here_;
  if (was_told_ || wqe::ended_by(q) != wqe::status::failed) return false;
  was_told_ = true;
  *error = q.state->error;
  return true;
}

}  // namespace lci::proxy
