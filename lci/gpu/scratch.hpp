// Requests whose answer, up to 8 bytes, a caller waits for: it lands in one of the endpoint's
// `scratch_count` places. Callers: atomics.hpp, values.hpp. Threads: any; of a scope the leader.
// Always true: a place is one caller's until its answer was read, or cannot come any more; after an
// abort or a limit, when it may, the place stays taken; who finds none free waits, with all that
// ends a wait.
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

// Takes a place for one answer if it is free. edge gpu.scratch: partner is give_back_scratch().
LCI_ANYWHERE inline bool try_take_scratch(const endpoint_record& r, std::uint32_t place) noexcept {
  std::uint32_t* const taken = r.scratch_taken + place;
  return look_at(taken) == 0 && wqe::word_at<std::uint32_t>(taken).compare_exchange_strong(
                                    0, 1, std::memory_order_acquire);
}
// edge gpu.scratch: the value was read before the place is another's. Partner is
// try_take_scratch().
LCI_ANYWHERE inline void give_back_scratch(const endpoint_record& r, std::uint32_t place) noexcept {
  wqe::word_at<std::uint32_t>(r.scratch_taken + place).store(0, std::memory_order_release);
}

// Whether a request that is in a queue which has failed is over. Behind the one that failed
// requests are flushed, but those that had begun beside it may be carried out still, and are
// flushed when they have been. Waits for that. False: the wait has ended before.
LCI_ANYWHERE_ONCE inline bool is_over_at_last(const wqe::send_queue& q,
                                              std::uint64_t end) noexcept {
  wqe::waiter wait(q.waits);
  for (;;) {
    // edge wqe.done: nothing lands any more. Partner is drain().
    const std::uint64_t done =
        wqe::word_at<std::uint64_t>(&q.state->done).load(std::memory_order_acquire);
    if (done >= end) return true;
    wait.saw(done);
    wqe::try_ring(q);
    wqe::drain(q);
    if (wait() != status::ok) return false;
  }
}

// With a place of its own, which it gives back.
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
  // After an abort or a limit the value may still come: the place stays taken.
  bool may_come = a.said == status::aborted || a.said == status::timed_out;
  if (a.said != status::ok && !may_come && is_posted) may_come = !is_over_at_last(peer.queue, end);
  if (!may_come) give_back_scratch(r, place);
  return a;
}

// Waits for the answer, of `size` bytes, to a request whose remote key is one for messages; where
// it lands is said here. Who has got a place goes on to give it back within the round: lanes of a
// warp may wait for each other's places.
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
