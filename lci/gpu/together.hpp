// How lanes of a warp post to one queue at the same time: one reservation for all, each writes its
// own part, one lane publishes and rings. Callers: posting.hpp. Threads: lanes that are there
// together; tests have threads in their place. Always true: each lane's requests are in the queue
// in the order of its calls, those of one turn in the order of the lanes.
//
// Divergence. Lanes of one warp may post to several queues at once, and reservations of two warps
// may wait for each other's turns crosswise. So a lane that has reserved never stops before it has
// published, not even for other lanes of its warp at the end of a loop: admission, writing and
// publication are steps of one loop, of which each round takes those that can be taken. This holds
// whether or not lanes that have left a loop wait for the others; what is left to independent
// thread scheduling (sm_70 and later) is that lanes on different branches all go on. A group whose
// blocks do not fit into half of the ring goes in several turns.
#pragma once

#include <cstdint>

#include "lci/gpu/lanes.hpp"
#include "lci/gpu/requests.hpp"

namespace lci::gpu::detail {

// Sums over a group of numbers below 64: of the lanes below, and of all.
template <class Lanes>
LCI_ANYWHERE void sum_blocks(unsigned group, std::uint32_t blocks, std::uint32_t* before,
                             std::uint32_t* total) noexcept {
  const unsigned below = group & ((1u << Lanes::number()) - 1);
  *before = *total = 0;
  for (unsigned bit = 0; bit < 6; ++bit) {
    const unsigned with = Lanes::ballot(group, (blocks >> bit & 1) != 0);
    *before += count_of(with & below) << bit;
    *total += count_of(with) << bit;
  }
}

// What the leader did in a round.
enum class post_step : std::uint32_t { none, may_write, published };

// One turn: the lanes of `turn`, a part of a group, whose blocks are [at, at + blocks) of it.
template <class Lanes>
LCI_ANYWHERE status post_turn(const wqe::send_queue& q, request_run& run, unsigned turn,
                              std::uint32_t at, std::uint32_t blocks, std::uint64_t* end) noexcept {
  const unsigned leader = lowest_of(turn), final = highest_of(turn);
  const std::uint32_t first = Lanes::shuffle(turn, at, leader);
  const std::uint32_t total = Lanes::shuffle(turn, at + blocks, final) - first;
  const std::uint32_t last = Lanes::shuffle(turn, blocks_in(run.requests[run.count - 1]), final);
  const bool leads = Lanes::number() == leader;
  const std::uint64_t base = Lanes::shuffle(turn, leads ? reserve(q, total) : 0, leader);
  *end = base + (at - first) + blocks;
  wqe::waiter wait(q.waits);
  bool is_written = false;
  wqe::own_turn own;  // of the leader
  status said = status::ok;
  for (post_step step = post_step::none; step != post_step::published && said == status::ok;) {
    step = post_step::none;
    if (leads) {
      if (is_written) {
        if (own.is_mine) {
          wqe::publish_in_turn(q, base, total, last);
          step = post_step::published;
        } else if (wqe::try_publish(q, base, total, last, wait)) {
          step = post_step::published;
        }
      } else if (wqe::is_admitted(q, base, total, wait)) {
        step = post_step::may_write;
      }
      if (step == post_step::none) said = wqe::wait_a_round(q, wait);
    }
    step = static_cast<post_step>(Lanes::shuffle(turn, static_cast<std::uint32_t>(step), leader));
    said = static_cast<status>(Lanes::shuffle(turn, static_cast<std::uint32_t>(said), leader));
    if (step == post_step::may_write) {
      write_run(q, base + (at - first), run);
      is_written = true;
      // What the lanes wrote is covered by the leader's barrier.
      Lanes::sync(turn);
      if (leads) {
        own = wqe::find_turn(q, base, base + total);
        wqe::to_card_barrier();
      }
    }
  }
  if (said == status::ok && leads) said = wqe::ring_if_last(q, base, base + total, own);
  return static_cast<status>(Lanes::shuffle(turn, static_cast<std::uint32_t>(said), leader));
}

// `run` was checked.
template <class Lanes>
LCI_ANYWHERE status post_together(const wqe::send_queue& q, request_run& run,
                                  std::uint64_t* end) noexcept {
  const unsigned group = Lanes::here_with(q.state);
  const std::uint32_t blocks = blocks_in(run);
  std::uint32_t at = 0, total = 0;
  sum_blocks<Lanes>(group, blocks, &at, &total);
  const std::uint32_t room = most_at_once(q.ring);
  status said = status::ok;
  for (std::uint32_t begin = 0; begin < total;) {
    const bool is_mine = at >= begin && at + blocks <= begin + room;
    const unsigned turn = Lanes::ballot(group, is_mine);
    if (is_mine) said = post_turn<Lanes>(q, run, turn, at, blocks, end);
    begin = Lanes::shuffle(group, at + blocks, highest_of(turn));
  }
  return said;
}

}  // namespace lci::gpu::detail
