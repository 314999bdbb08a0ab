// Requests whose answer, up to 8 bytes, a caller waits for: it lands in one of the endpoint's
// `scratch_count` places. Callers: atomics.hpp, values.hpp. Threads: any; of a scope the leader.
// Always true: a place is one caller's until its answer was read, or cannot come any more. After an
// abort or a limit, when it may, the place says behind which request of which queue it is free, and
// the next caller that looks there finds out. If none is free it waits, with all that ends a wait.
#pragma once

#include <cstdint>

#include "lci/gpu/beside_card.hpp"
#include "lci/gpu/order.hpp"
#include "lci/gpu/waiting.hpp"

namespace lci::gpu::detail {

struct answer {
  status said = status::ok;
  std::uint64_t value = 0;  // of at most 4 bytes: in the low half
};

// The word of a place: 0, free; 1, taken; or left by a caller that gave up: this bit, the rank of
// its queue, and the low bits of where its request ends.
inline constexpr std::uint64_t SCRATCH_LEFT = std::uint64_t{1} << 63;
inline constexpr unsigned SCRATCH_END_BITS = 39;
inline constexpr std::uint64_t SCRATCH_END_MASK = (std::uint64_t{1} << SCRATCH_END_BITS) - 1;

LCI_ANYWHERE constexpr std::uint64_t scratch_left(int rank, std::uint64_t end) noexcept {
  return SCRATCH_LEFT | static_cast<std::uint64_t>(rank) << SCRATCH_END_BITS |
         (end & SCRATCH_END_MASK);
}
// Whether all before `done` is over, as far as the low bits tell: at most a ring is before it, so
// they never say so too early.
LCI_ANYWHERE constexpr bool is_scratch_over(std::uint64_t left, std::uint64_t done) noexcept {
  return ((done - left) & SCRATCH_END_MASK) <= SCRATCH_END_MASK / 2;
}

// edge wqe.done: nothing lands any more in what is before it. Partner is drain().
LCI_ANYWHERE inline std::uint64_t look_at_done(const wqe::send_queue& q) noexcept {
  return wqe::word_at<std::uint64_t>(&q.state->done).load(std::memory_order_acquire);
}

// Whether no answer may come to a place that was left. Perhaps nothing else moves its queue.
LCI_ANYWHERE_ONCE inline bool is_over(const endpoint_record& r, std::uint64_t left) noexcept {
  const auto rank = static_cast<int>((left & ~SCRATCH_LEFT) >> SCRATCH_END_BITS);
  const wqe::send_queue& q = peer_beside(r, rank).queue;
  if (is_scratch_over(left, look_at_done(q))) return true;
  wqe::try_ring(q);
  wqe::drain(q);
  return is_scratch_over(left, look_at_done(q));
}

// Takes a place for one answer if it is free. edge gpu.scratch: partners are give_back_scratch()
// and leave_scratch().
LCI_ANYWHERE inline bool try_take_scratch(const endpoint_record& r, std::uint32_t place) noexcept {
  std::uint64_t* const taken = r.scratch_taken + place;
  const std::uint64_t now = look_at(taken);
  if (now != 0 && ((now & SCRATCH_LEFT) == 0 || !is_over(r, now))) return false;
  return wqe::word_at<std::uint64_t>(taken).compare_exchange_strong(now, 1,
                                                                    std::memory_order_acquire);
}
// edge gpu.scratch: the value was read before the place is another's. Partner is
// try_take_scratch().
LCI_ANYWHERE inline void give_back_scratch(const endpoint_record& r, std::uint32_t place) noexcept {
  wqe::word_at<std::uint64_t>(r.scratch_taken + place).store(0, std::memory_order_release);
}
// edge gpu.scratch: the place is another's when its queue is behind `end`. Partner is
// try_take_scratch().
LCI_ANYWHERE inline void leave_scratch(const endpoint_record& r, std::uint32_t place, int rank,
                                       std::uint64_t end) noexcept {
  wqe::word_at<std::uint64_t>(r.scratch_taken + place)
      .store(scratch_left(rank, end), std::memory_order_release);
}

// Whether a request that is in a queue which has failed is over. Behind the one that failed
// requests are flushed, but those that had begun beside it may be carried out still, and are
// flushed when they have been. Waits for that. False: the wait has ended before.
LCI_ANYWHERE_ONCE inline bool is_over_at_last(const wqe::send_queue& q,
                                              std::uint64_t end) noexcept {
  wqe::waiter wait(q.waits);
  for (;;) {
    const std::uint64_t done = look_at_done(q);
    if (done >= end) return true;
    wait.saw(done);
    wqe::try_ring(q);
    wqe::drain(q);
    if (wait() != status::ok) return false;
  }
}

// With a place of its own, which it gives back or leaves.
template <class Scope>
LCI_ANYWHERE answer ask_with_scratch(const endpoint_t& ep, int rank,
                                     const wqe::send_request& request, std::uint32_t size,
                                     std::uint32_t place) noexcept {
  const endpoint_record& r = *ep.record;
  const peer_record& peer = peer_beside(r, rank);
  const std::uint64_t offset = 8 * (std::uint64_t{place} + 1);
  const wqe::sge landing{r.scratch.base + offset, size, r.scratch.key};
  request_run run;
  run.requests[0] = request;
  run.requests[0].entries = &landing;
  run.requests[0].entry_count = 1;
  run.requests[0].signaled = true;
  run.count = 1;
  std::uint64_t end = 0;
  answer a;
  a.said = post_run<Scope>(peer, run, &end);
  // A post that the end of the queue has met may have published the request.
  const bool is_posted =
      a.said == status::ok ||
      (end != 0 && look_at(&peer.queue.state->published) >> wqe::PUBLISHED_SHIFT >= end);
  if (a.said == status::ok) a.said = wait_for(peer, end);
  if (a.said == status::ok) {
    const void* const from = pointer(r.scratch.mapped + offset);
    a.value = size > 4 ? look_at(static_cast<const std::uint64_t*>(from))
                       : look_at(static_cast<const std::uint32_t*>(from));
  }
  // Beyond an abort or a limit the value may still come, and no thread waits for it.
  const bool gave_up = a.said == status::aborted || a.said == status::timed_out;
  if (a.said == status::ok || !is_posted || (!gave_up && is_over_at_last(peer.queue, end))) {
    give_back_scratch(r, place);
  } else {
    leave_scratch(r, place, rank, end);
  }
  return a;
}

// Waits for the answer, of `size` bytes, to a request whose remote key is one for messages; where
// it lands is said here. A thread that has got a place goes on to give it back within the round:
// lanes of a warp may wait for each other's places.
template <class Scope>
LCI_ANYWHERE answer ask(const endpoint_t& ep, int rank, const wqe::send_request& request,
                        std::uint32_t size) noexcept {
  const endpoint_record& r = *ep.record;
  answer a;
  if (r.scratch_count == 0 || r.scratch.mapped == 0) {
    a.said = status::bad_key;
    return a;
  }
  // Before a place is taken: with a card's queue that has ended it would never be given back.
  if (a.said = wait_for_card<Scope>(ep, rank); a.said != status::ok) return a;
  patience wait(ep, r.peers[rank].ended, rank);
#ifdef __CUDA_ARCH__
  auto next = static_cast<std::uint32_t>(clock64());
#else
  std::uint32_t next = 0;
#endif
  for (bool is_over = false; !is_over; ++next) {
    const std::uint32_t place = next & (r.scratch_count - 1);
    if (try_take_scratch(r, place)) {
      a = ask_with_scratch<Scope>(ep, rank, request, size, place);
      is_over = true;
    } else {
      // Places become free as the queue moves.
      wait.saw(look_at(&peer_beside(r, rank).queue.state->done));
      a.said = wait();
      is_over = a.said != status::ok;
    }
  }
  return a;
}

}  // namespace lci::gpu::detail
