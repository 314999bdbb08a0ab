// How a call's requests get into the queue to a peer. A call has one request, or two that follow
// each other (data and signal): they are reserved, published and rung for at once. Lanes of a warp
// that post to one queue at the same time do it together: one reservation for all, each writes its
// own part, one lane publishes and rings.
// Callers: the calls of this room. Threads: any. Always true: requests of one thread are in the
// queue in the order of its calls; nothing is posted of a call that is refused.
//
// Divergence. Lanes of one warp may post to several queues at once, and reservations of two warps
// may wait for each other's turns crosswise. So a lane that has reserved never stops before it has
// published, not even for other lanes of its warp at the end of a loop: admission, writing and
// publication are steps of one loop, of which each round takes those that can be taken. This holds
// whether or not lanes that have left a loop wait for the others; what is left to independent
// thread scheduling (sm_70 and later) is that lanes on different branches all go on. No lock is
// held across a wait. What is reserved at once is at most half of the ring: of the other half at
// least the begin asks for a completion, so there will be room.
#pragma once

#include <cstdint>
#include <type_traits>

#include "lci/gpu/access.hpp"
#include "lci/gpu/scope.hpp"

namespace lci::gpu {

// The requests of one call, at most two.
struct request_run {
  wqe::send_request requests[2];
  std::uint32_t count = 0;
};

LCI_ANYWHERE inline std::uint32_t blocks_in(const wqe::send_request& r) noexcept {
  return wqe::blocks_of(static_cast<std::uint32_t>(wqe::octowords_of(r)));
}
LCI_ANYWHERE inline std::uint32_t blocks_in(const request_run& run) noexcept {
  std::uint32_t n = 0;
  for (std::uint32_t i = 0; i < run.count; ++i) n += blocks_in(run.requests[i]);
  return n;
}

// How many blocks may be reserved at once: see must_signal(), by which all requests of a short
// ring, and at least one in each half of a longer one, ask for a completion.
LCI_ANYWHERE constexpr std::uint32_t most_at_once(const wqe::send_ring& ring) noexcept {
  return ring.blocks < 2 * wqe::MAX_BLOCKS ? ring.blocks : ring.blocks / 2;
}

LCI_ANYWHERE inline status check_run(const wqe::send_queue& q, request_run& run) noexcept {
  for (std::uint32_t i = 0; i < run.count; ++i) {
    run.requests[i].qpn = q.qpn;
    if (const status s = wqe::check(q.ring, run.requests[i], q.limits); s != status::ok) return s;
  }
  // A ring of an endpoint has at least 16 blocks, and its requests at most four.
  if (blocks_in(run) > most_at_once(q.ring)) return status::longer_than_ring;
  return look_at(&q.state->ended) == 0 ? status::ok : status::dead;
}

LCI_ANYWHERE inline void write_run(const wqe::send_queue& q, std::uint64_t base,
                                   request_run& run) noexcept {
  for (std::uint32_t i = 0; i < run.count; ++i) {
    wqe::send_request& r = run.requests[i];
    const std::uint32_t blocks = blocks_in(r);
    r.signaled |= wqe::must_signal(base, blocks, q.ring.blocks);
    wqe::write_checked(q.ring, base, r);
    base += blocks;
  }
}

// Relaxed: the number alone matters; admit() and publish() order the rest.
LCI_ANYWHERE inline std::uint64_t reserve(const wqe::send_queue& q, std::uint32_t blocks) noexcept {
  return wqe::word_at<std::uint64_t>(&q.state->reserved)
      .fetch_add(blocks, std::memory_order_relaxed);
}

// By this thread alone. `run` was checked.
LCI_ANYWHERE inline status post_alone(const wqe::send_queue& q, request_run& run,
                                      std::uint64_t* end) noexcept {
  const std::uint32_t blocks = blocks_in(run);
  const std::uint64_t base = reserve(q, blocks);
  if (const status s = wqe::admit(q, base, blocks); s != status::ok) return s;
  write_run(q, base, run);
  const std::uint32_t last = blocks_in(run.requests[run.count - 1]);
  if (const status s = wqe::publish(q, base, blocks, last); s != status::ok) return s;
  *end = base + blocks;
  return wqe::ring_if_last(q, base, *end);
}

#ifdef __CUDA_ARCH__
namespace detail {

// Lanes that are here together and post to one queue.
struct lane_group {
  unsigned mask;
  unsigned below;  // of these the ones with lower numbers than this lane
};
__device__ inline lane_group group_of(const wqe::send_queue& q) {
  const unsigned mask = __match_any_sync(
      __activemask(), static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(q.state)));
  unsigned below;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  return {mask, mask & below};
}

// Sums over a group of numbers below 64: of the lanes below, and of all.
__device__ inline void sum_blocks(const lane_group& g, std::uint32_t blocks, std::uint32_t* before,
                                  std::uint32_t* total) {
  *before = *total = 0;
  for (unsigned bit = 0; bit < 6; ++bit) {
    const unsigned with = __ballot_sync(g.mask, blocks >> bit & 1);
    *before += __popc(with & g.below) << bit;
    *total += __popc(with) << bit;
  }
}

// Which step a reservation can take.
enum class post_step : int { none, write, published };

// One turn: the lanes of `turn`, a part of the group, whose blocks are [at, at + blocks) of it.
__device__ inline status post_turn(const wqe::send_queue& q, request_run& run, unsigned turn,
                                   std::uint32_t at, std::uint32_t blocks, std::uint64_t* end) {
  const int leader = __ffs(turn) - 1, final = 31 - __clz(turn);
  const std::uint32_t first = __shfl_sync(turn, at, leader);
  const std::uint32_t total = __shfl_sync(turn, at + blocks, final) - first;
  const std::uint32_t last = __shfl_sync(turn, blocks_in(run.requests[run.count - 1]), final);
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  const bool leads = static_cast<int>(lane) == leader;
  std::uint64_t base = leads ? reserve(q, total) : 0;
  base = __shfl_sync(turn, base, leader);
  *end = base + (at - first) + blocks;
  wqe::waiter wait(q.waits);
  bool is_written = false;
  int said = 0;
  for (int step = 0; step != static_cast<int>(post_step::published) && said == 0;) {
    step = 0;
    if (leads) {
      if (is_written) {
        if (wqe::try_publish(q, base, total, last, wait))
          step = static_cast<int>(post_step::published);
      } else if (wqe::is_admitted(q, base, total, wait)) {
        step = static_cast<int>(post_step::write);
      }
      if (step == 0) said = static_cast<int>(wqe::wait_a_round(q, wait));
    }
    step = __shfl_sync(turn, step, leader);
    said = __shfl_sync(turn, said, leader);
    if (step == static_cast<int>(post_step::write)) {
      write_run(q, base + (at - first), run);
      is_written = true;
      // What the lanes wrote is covered by the leader's barrier.
      __syncwarp(turn);
      if (leads) wqe::to_card_barrier();
    }
  }
  if (said == 0 && leads) said = static_cast<int>(wqe::ring_if_last(q, base, base + total));
  return static_cast<status>(__shfl_sync(turn, said, leader));
}

__device__ inline status post_together(const wqe::send_queue& q, request_run& run,
                                       std::uint64_t* end) {
  const lane_group g = group_of(q);
  const std::uint32_t blocks = blocks_in(run);
  std::uint32_t at = 0, total = 0;
  sum_blocks(g, blocks, &at, &total);
  const std::uint32_t room = most_at_once(q.ring);
  status said = status::ok;
  for (std::uint32_t begin = 0; begin < total;) {
    const bool is_mine = at >= begin && at + blocks <= begin + room;
    const unsigned turn = __ballot_sync(g.mask, is_mine);
    if (is_mine) said = post_turn(q, run, turn, at, blocks, end);
    begin = __shfl_sync(g.mask, at + blocks, 31 - __clz(turn));
  }
  return said;
}

}  // namespace detail
#endif

// By a thread that may have other lanes of its warp beside it.
LCI_ANYWHERE_ONCE inline status post_beside_others(const peer_record& peer, request_run& run,
                                                   std::uint64_t* end) noexcept {
  const wqe::send_queue& q = peer.queue;
  status s = check_run(q, run);
#ifdef __CUDA_ARCH__
  if (s == status::ok) s = detail::post_together(q, run, end);
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
