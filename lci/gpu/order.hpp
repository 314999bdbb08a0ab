// Completion of what was started (quiet and fence), and the reasons of failures. Callers: kernels,
// or threads of the process. Threads: any; all members of the scope that a call names.
// Always true: quiet() covers the calls that its scope made before it, and those of other threads
// that it has synchronized with. A queue to which nothing was posted since the last one costs two
// loads and no request. A queue that has ended gives the reason each time. Several threads may wait
// at once: each that finds requests under way posts one behind them that asks for a completion
// (lanes of a warp share one), so none relies on another's. Of messages, quiet() and fence() say
// only that their memory is free.
#pragma once

#include <cstdint>
#include <type_traits>

#include "lci/gpu/posting.hpp"

namespace lci::gpu {

namespace detail {

// Whether all that was reserved is carried out. On a GPU the fence behind it makes what came with
// the completions visible; a processor's load does it. edge wqe.done: partner is drain().
LCI_ANYWHERE inline bool is_idle(const wqe::send_queue& q) noexcept {
  // Relaxed: own reservations are seen anyway, and those of threads that this one has met.
  const std::uint64_t reserved = look_at(&q.state->reserved);
#ifdef __CUDA_ARCH__
  return look_at(&q.state->carried_out) >= reserved;
#else
  return wqe::word_at<std::uint64_t>(&q.state->carried_out).load(std::memory_order_acquire) >=
         reserved;
#endif
}

// Until everything before `end` is done, the last request of which asked for a completion.
LCI_ANYWHERE_ONCE inline status wait_for(const peer_record& peer, std::uint64_t end) noexcept {
  return wqe::wait_until_done(peer.queue, end) == status::ok ? status::ok : reason_of(peer);
}

// A request that does nothing behind all others, and its completion.
template <class Scope>
LCI_ANYWHERE_ONCE status flush(const peer_record& peer) noexcept {
  request_run run;
  run.count = 1;  // a NOP that asks for a completion
  std::uint64_t end = 0;
  if (const status s = post_run<Scope>(peer, run, &end); s != status::ok) {
    const status why = reason_of(peer);
    return why == status::ok ? s : why;
  }
  return wait_for(peer, end);
}

#ifdef __CUDA_ARCH__
// Lanes that wait for one queue have one of them do it.
__device__ inline status flush_together(const peer_record& peer) {
  const unsigned group = gpu_lanes::here_with(peer.queue.state);
  const unsigned leader = lowest_of(group);
  gpu_lanes::sync(group);
  const status said = gpu_lanes::number() == leader ? flush<thread>(peer) : status::ok;
  return static_cast<status>(gpu_lanes::shuffle(group, static_cast<int>(said), leader));
}
#endif

template <class Scope>
LCI_ANYWHERE status quiet_of(const peer_record& peer) noexcept {
  if (look_at(&peer.queue.state->ended) != 0) return reason_of(peer);
  if (is_idle(peer.queue)) return status::ok;
#ifdef __CUDA_ARCH__
  if (std::is_same<Scope, thread>::value) return flush_together(peer);
#endif
  return flush<Scope>(peer);
}

LCI_ANYWHERE inline wqe::syndrome syndrome_in(const wqe::send_queue& q) noexcept {
  return wqe::ended_by(q) == status::failed ? q.state->error.error : wqe::syndrome::none;
}

// Of the queue for messages too, where that is another one.
template <class Scope>
LCI_ANYWHERE status quiet_of_rank(const endpoint_record& record, std::uint32_t rank) noexcept {
  const status s = quiet_of<Scope>(record.peers[rank]);
  if (record.message_peers == nullptr) return s;
  const status of_messages = quiet_of<Scope>(record.message_peers[rank]);
  return s == status::ok ? of_messages : s;
}

}  // namespace detail

// Waits until everything that was started to `rank` is done: puts are visible there, the results of
// gets and atomics are here, and sources may be reused. Includes direct copies. Not ok: the reason
// why the queue has ended; see syndrome_of().
template <class Scope = thread>
LCI_ANYWHERE status quiet(const endpoint_t& ep, int rank) noexcept {
  return by_leader<Scope>([&] {
    if (const status s = check_rank(ep, rank); s != status::ok) return s;
    const status s = detail::quiet_of_rank<Scope>(*ep.record, static_cast<std::uint32_t>(rank));
    wqe::to_card_barrier();
    return s;
  });
}
// The same for all ranks. If several queues have ended, the reason of the lowest rank.
template <class Scope = thread>
LCI_ANYWHERE status quiet(const endpoint_t& ep) noexcept {
  return by_leader<Scope>([&] {
    status all = check_endpoint(ep);
    if (all != status::ok) return all;
    for (std::uint32_t i = 0; i < ep.record->ranks; ++i) {
      const status s = detail::quiet_of_rank<Scope>(*ep.record, i);
      if (all == status::ok) all = s;
    }
    wqe::to_card_barrier();
    return all;
  });
}

// What was started to `rank` before is visible there before anything that is started later. With
// nothing in the queue it is a memory barrier; otherwise it waits as quiet() does, since later
// operations may bypass the queue.
template <class Scope = thread>
LCI_ANYWHERE status fence(const endpoint_t& ep, int rank) noexcept {
  return quiet<Scope>(ep, rank);
}
// The same for each rank.
template <class Scope = thread>
LCI_ANYWHERE status fence(const endpoint_t& ep) noexcept {
  return quiet<Scope>(ep);
}

// The first error of the queue to `rank`, as a card reports it, or of the queue for messages; none
// if there was no error.
LCI_ANYWHERE inline wqe::syndrome syndrome_of(const endpoint_t& ep, int rank) noexcept {
  if (check_rank(ep, rank) != status::ok) return wqe::syndrome::none;
  const wqe::syndrome of_queue = detail::syndrome_in(ep.record->peers[rank].queue);
  if (of_queue != wqe::syndrome::none || ep.record->message_peers == nullptr) return of_queue;
  return detail::syndrome_in(ep.record->message_peers[rank].queue);
}

// The rank of this process, and how many there are; -1: an empty or freed endpoint.
LCI_ANYWHERE inline int rank(const endpoint_t& ep) noexcept {
  return check_endpoint(ep) == status::ok ? static_cast<int>(ep.record->me) : -1;
}
LCI_ANYWHERE inline int ranks(const endpoint_t& ep) noexcept {
  return check_endpoint(ep) == status::ok ? static_cast<int>(ep.record->ranks) : -1;
}

using wqe::text_of;

}  // namespace lci::gpu
