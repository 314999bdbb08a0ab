// The algorithms of the collectives, each as a function that writes the plan of one rank.
//
// Called by: the entry points in the .cpp files of this folder, and by each other (an allreduce by
// tree is a reduce and a broadcast). All ranks of a job must ask for the same algorithm with the
// same sizes. Threads: any; the only state is the plan that the caller owns. Always true: no
// function reads or writes a user buffer itself, sizes of 0 exchange no message (except in the
// barrier), and a plan may end with transfers under way, since its end is a join.
#pragma once

#include <cstddef>

#include "lci/coll/plan.hpp"
#include "lci/types.hpp"

namespace lci::coll {

// Up to this size latency decides, above it bandwidth: messages are sent whole below and in pieces
// above.
inline constexpr size_t SMALL_COLLECTIVE = 65536;
// Up to here one rank talks to all others itself; above it a tree shares that work.
inline constexpr int FEW_RANKS = 8;
// Most exchanges that one rank starts together, so that large jobs do not flood their queues.
inline constexpr int EXCHANGES_TOGETHER = 16;

// A reduction's data: `count` items of `item_size` bytes, from `in` (never written) to `out`. `in`
// and `out` may be the same array.
struct items_t {
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  size_t item_size = 0;
  size_t bytes() const { return count * item_size; }
};

// How `count` items are divided among `n` ranks, in order and as evenly as possible.
struct blocks_t {
  size_t count = 0;      // items in all
  size_t item_size = 0;  // bytes
  int n = 1;
  size_t first(int rank) const;                                           // in items
  size_t items(int rank) const { return first(rank + 1) - first(rank); }  // in items
  size_t offset(int rank) const { return first(rank) * item_size; }       // in bytes
  size_t bytes(int rank) const { return items(rank) * item_size; }        // in bytes
};

// What "automatic" stands for: every rank computes the same result from the same arguments.
broadcast_algorithm_t choose_broadcast(size_t size, int n);
allreduce_algorithm_t choose_allreduce(size_t size, int n);
reduce_scatter_algorithm_t choose_reduce_scatter(size_t size, int n);

void plan_barrier(plan_t& plan);

// `nsteps` (ring only, >= 1) is how many messages each rank sends on: the number of pieces.
void plan_broadcast(plan_t& plan, void* buffer, size_t size, int root,
                    broadcast_algorithm_t algorithm, int nsteps);

void plan_reduce(plan_t& plan, const items_t& items, int root);

// `nsteps` (ring only, >= 1) is how many messages each rank sends in the reducing phase: more than
// n - 1 of them cut the blocks into pieces, so that combining overlaps with the next transfer.
void plan_allreduce(plan_t& plan, const items_t& items, allreduce_algorithm_t algorithm,
                    int nsteps);

// `items.count` counts the items of all ranks together, `items.out` has room for this rank's block.
void plan_reduce_scatter(plan_t& plan, const items_t& items, reduce_scatter_algorithm_t algorithm,
                         int nsteps);

// Reduces by passing partial results along the ring; rank r ends with block r, in `own`.
void plan_ring_reduce(plan_t& plan, const void* in, void* own, const blocks_t& blocks, int nsteps);

// Every rank sends `in` + r * `stride` to each rank r and combines what it gets, together with its
// own part, into `items` items at `out`. The order is that of the ranks, on every rank alike: sums
// of floating-point numbers then have the same bits everywhere.
void plan_direct_reduce(plan_t& plan, const void* in, size_t stride, void* out, size_t items,
                        size_t item_size);

void plan_allgather(plan_t& plan, const void* in, void* out, size_t size);
void plan_alltoall(plan_t& plan, const void* in, void* out, size_t size);

// The address `offset` bytes further on.
inline const std::byte* at(const void* base, size_t offset) {
  return static_cast<const std::byte*>(base) + offset;
}
inline std::byte* at(void* base, size_t offset) { return static_cast<std::byte*>(base) + offset; }

}  // namespace lci::coll
