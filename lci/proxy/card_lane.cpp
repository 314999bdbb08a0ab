#include "lci/proxy/card_lane.hpp"

#include <cstring>
#include <string>

#include "lci/api/waiting.hpp"
#include "lci/base/undo.hpp"
#include "lci/errors.hpp"
#include "lci/proxy/tier.hpp"
#include "lci/runtime/runtime.hpp"

namespace lci::proxy {

using proto::card_question;

namespace {

void check_peer(device_impl_t& device, int rank, bool is_lost) {
  try {
    if (is_lost || device.queues.engine().watch.has_ended(rank))
      device.owner().core.peers.throw_ended(rank);
  } catch (const peer_failure_error& error) {
    throw tier_peer_error(error);
  }
}

}  // namespace

const proto::wire::card_answer& ask(device_impl_t& device, card_question& question) {
  proto::card_pairs& pairs = device.queues.pairs;
  base::undo given([&]() noexcept { pairs.cancel(question); });
  api::waiting wait(device.queues);
  for (;;) {
    if (question.now() == card_question::idle) pairs.start(question);
    const card_question::state now = question.now();
    if (now == card_question::answered) break;
    if (now == card_question::lost) check_peer(device, question.rank, true);
    wait.progress([&]() noexcept {
      return base::waiting_call{"the card of another rank", nullptr, question.rank};
    });
    check_peer(device, question.rank, false);
  }
  given.keep();
  if (question.answer.result != proto::wire::card_result::done)
    throw tier_error("rank " + std::to_string(question.rank) + ": " +
                     std::string(proto::text_of(question.answer.result)));
  return question.answer;
}

card_lane::card_lane(device_impl_t& device, int rank, const net::kernel_queue_options& wanted)
    : device_(device),
      rank_(rank),
      queue_(device.context.fabric->card_for_kernels()->make_queue(wanted)) {
  constexpr std::uint64_t SECOND = 1000000000;
  const std::string own = queue_->address();
  here_ = queue_->here();
  here_.waits = {nullptr, SECOND};
  is_connected_ = rank == device.owner().core.me;
  if (is_connected_) {
    queue_->connect(own);
    return;
  }
  proto::wire::card_ask& said = question_.ask;
  if (own.size() > sizeof(said.address))
    throw backend_error("a queue pair has an address of " + std::to_string(own.size()) + " bytes");
  question_.rank = rank;
  said.size = static_cast<std::uint32_t>(own.size());
  std::memcpy(said.address, own.data(), own.size());
  device.queues.pairs.start(question_);  // connect() tries again if it was refused
}

void card_lane::connect() {
  if (is_connected_) return;
  const proto::wire::card_answer& got = ask(device_, question_);
  pair_ = got.pair;
  try {
    queue_->connect({reinterpret_cast<const char*>(got.address), got.size});
  } catch (const backend_error& error) {
    throw tier_error(error.what());
  }
  is_connected_ = true;
}

// The own queue first: what it has under way ends while the other end is there.
card_lane::~card_lane() {
  proto::card_pairs& pairs = device_.queues.pairs;
  pairs.cancel(question_);
  queue_.reset();
  // One that was answered and not looked at.
  if (question_.now() == card_question::answered &&
      question_.answer.result == proto::wire::card_result::done)
    pair_ = question_.answer.pair;
  if (pair_.generation != 0) pairs.end_pair(rank_, pair_);
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
