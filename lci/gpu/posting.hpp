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

// By this thread alone. `run` was checked.
LCI_ANYWHERE inline status post_alone(const wqe::send_queue& q, request_run& run,
                                      std::uint64_t* end) noexcept {
  const std::uint32_t blocks = blocks_in(run);
  const std::uint64_t base = reserve(q, blocks);
  if (const status s = wqe::admit(q, base, blocks); s != status::ok) return s;
  write_run(q, base, run);
  const std::uint32_t last = blocks_in(run.requests[run.count - 1]);
  wqe::own_turn own;
  if (const status s = wqe::publish(q, base, blocks, last, &own); s != status::ok) return s;
  *end = base + blocks;
  return wqe::ring_if_last(q, base, *end, own);
}

// By a thread that may have other lanes of its warp beside it.
LCI_ANYWHERE_ONCE inline status post_beside_others(const peer_record& peer, request_run& run,
                                                   std::uint64_t* end) noexcept {
  const wqe::send_queue& q = peer.queue;
  status s = check_run(q, run);
#ifdef __CUDA_ARCH__
  if (s == status::ok) s = detail::post_together<detail::gpu_lanes>(q, run, end);
#else
  if (s == status::ok) s = post_alone(q, run, end);
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
