// How a call's requests get into the queue to a peer. A call has one request, or two that follow
// each other (data and signal): they are reserved, published and rung for at once. Lanes of a warp
// that post to one queue at the same time do it together (together.hpp).
// Callers: the calls of this room. Threads: any. Always true: requests of one thread are in the
// queue in the order of its calls; nothing is posted of a call that is refused; what is reserved at
// once is at most half of the ring: of the other half at least the begin asks for a completion, so
// there will be room. No lock is held across a wait.
#pragma once

#include <cstdint>
#include <type_traits>

#include "lci/gpu/scope.hpp"
#include "lci/gpu/together.hpp"

namespace lci::gpu {

// By this thread alone: reserves `blocks`, the last request of which has `last`, has
// write(queue, base) fill them, publishes and rings.
//
// A thread of a GPU waits 150 to 400 ns for each word that it needs before the next step, and after
// each acquire for words that it has read before. So what a post needs of its queue is read once,
// and what others change, the bell included, is under way at once, beside the reservation.
template <class Write>
LCI_ANYWHERE status post_by_one(const wqe::send_queue& queue, std::uint32_t blocks,
                                std::uint32_t last, std::uint64_t* end, Write&& write) noexcept {
  wqe::send_queue q;
  q.ring = queue.ring;
  q.bell = queue.bell;
  q.state = queue.state;
  q.qpn = queue.qpn;
  wqe::send_queue_state& state = *q.state;
  const bool has_mailbox = q.bell.form == wqe::doorbell_form::mailbox;
  const std::uint64_t base = reserve(q, blocks);
  const bool has_bell = has_mailbox && wqe::try_lock_early(&state.bell_lock);
  // edge wqe.published: what the threads before have stored comes with their word, and the barrier.
  const std::uint64_t published =
      wqe::word_at<std::uint64_t>(&state.published).load(wqe::order_before_barrier());
  const std::uint32_t ended = look_at(&state.ended);
  // The acquire, which waits, comes last. edge wqe.done: blocks are written after they were read.
  // Partner is drain().
  const std::uint64_t done =
      wqe::word_at<std::uint64_t>(&state.done).load(std::memory_order_acquire);

  const bool has_room = wqe::may_write(base, blocks, done, q.ring.blocks);
  wqe::own_turn turn;
  turn.is_mine = published >> wqe::PUBLISHED_SHIFT == base;
  turn.has_bell = has_bell && turn.is_mine && has_room && ended == 0;
  // A thread that waits for room rings for others.
  if (has_bell && !turn.has_bell) wqe::unlock_untouched(&state.bell_lock);
  if (ended != 0) {
    wqe::ring_at_the_end(queue);
    return status::dead;
  }
  if (!has_room)
    if (const status s = wqe::admit(queue, base, blocks); s != status::ok) return s;
  write(q, base);
  wqe::to_card_barrier();
  *end = base + blocks;
  if (turn.has_bell) {
    wqe::publish_in_turn(q, base, blocks, last);
    wqe::ring_in_turn(q, *end);
    return status::ok;
  }
  if (const status s = wqe::publish_covered(queue, base, blocks, last, turn); s != status::ok)
    return s;
  return wqe::ring_if_last(queue, base, *end, turn);
}
// `run` was checked.
LCI_ANYWHERE inline status post_alone(const wqe::send_queue& queue, request_run& run,
                                      std::uint64_t* end) noexcept {
  return post_by_one(
      queue, blocks_in(run), blocks_in(run.requests[run.count - 1]), end,
      [&](const wqe::send_queue& q, std::uint64_t base) { write_run(q, base, run); });
}

// Whether no other lane of the warp is here, of a scope whose members may be. What together.hpp
// says of divergence rests on it: loops that a lone lane is in have no others to wait for.
template <class Scope>
LCI_ANYWHERE bool is_alone() noexcept {
#ifdef __CUDA_ARCH__
  return !std::is_same<Scope, thread>::value || detail::count_of(__activemask()) == 1;
#else
  return true;
#endif
}

// By a thread that may have other lanes of its warp beside it.
LCI_ANYWHERE_ONCE inline status post_beside_others(const peer_record& peer, request_run& run,
                                                   std::uint64_t* end) noexcept {
  const wqe::send_queue& q = peer.queue;
  status s = check_run(q, run);
  if (s != status::ok) return refusal_of(peer, s);
#ifdef __CUDA_ARCH__
  s = is_alone<thread>() ? post_alone(q, run, end)
                         : detail::post_together<detail::gpu_lanes>(q, run, end);
#else
  s = post_alone(q, run, end);
#endif
  return s == status::ok ? s : refusal_of(peer, s);
}
// By the leader of a warp or block.
LCI_ANYWHERE_ONCE inline status post_as_leader(const peer_record& peer, request_run& run,
                                               std::uint64_t* end) noexcept {
  status s = check_run(peer.queue, run);
  if (s == status::ok) s = post_alone(peer.queue, run, end);
  return s == status::ok ? s : refusal_of(peer, s);
}

// Posts them, in the queue to `peer`. Waits while the ring is full. ok: they are in the queue for
// good, and done once wait_until_done(*end) is, if one behind them asks for a completion.
template <class Scope>
LCI_ANYWHERE status post_run(const peer_record& peer, request_run& run,
                             std::uint64_t* end) noexcept {
  return std::is_same<Scope, thread>::value ? post_beside_others(peer, run, end)
                                            : post_as_leader(peer, run, end);
}

}  // namespace lci::gpu
