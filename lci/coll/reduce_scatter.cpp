// reduce_scatter: the contributions of all ranks are combined, and rank r gets block r of the
// result.
#include <algorithm>

#include "lci/coll/algorithms.hpp"
#include "lci/coll/arguments.hpp"
#include "lci/coll/run.hpp"

namespace lci::coll {
namespace {

// Reduce everything to rank 0, then hand blocks down a binomial tree: a rank passes to each child
// the blocks of that child's whole subtree, which are neighbours.
void reduce_and_scatter(plan_t& plan, const items_t& items) {
  const int n = plan.n();
  const int me = plan.me();
  const size_t block = items.bytes() / static_cast<size_t>(n);
  int bit = 1;  // ends as the span of this rank's subtree
  while (bit < n && (me & bit) == 0) bit *= 2;
  const int below = std::min(bit, n - me);  // ranks in this subtree, this one included

  std::byte* const held = plan.scratch(static_cast<size_t>(below) * block);
  plan_reduce(plan, {items.in, held, items.count, items.item_size}, 0);
  plan.join();
  if (me != 0) {
    plan.recv(me - bit, held, static_cast<size_t>(below) * block);
    plan.join();
  }
  for (bit /= 2; bit > 0; bit /= 2) {
    if (bit >= below) continue;
    const int span = std::min(bit, below - bit);
    plan.send(me + bit, held + static_cast<size_t>(bit) * block, static_cast<size_t>(span) * block);
  }
  plan.copy(items.out, held, block);
}

}  // namespace

// In step s this rank passes on the partial result of block me-1-s and gets that of block me-2-s,
// so that the last one to come in is its own. With more than one piece per block the next piece is
// under way while the last one is combined.
void plan_ring_reduce(plan_t& plan, const void* in, void* own, const blocks_t& blocks, int nsteps) {
  const int n = plan.n();
  const size_t pieces = static_cast<size_t>(std::max(1, nsteps / (n - 1)));
  // Block 0 is never smaller than another one.
  std::byte* const partial[2] = {plan.scratch(blocks.bytes(0)), plan.scratch(blocks.bytes(0))};

  struct piece_t {
    size_t first, items;  // within its block
  };
  const auto piece_of = [&](int rank, size_t q) {
    const size_t items = blocks.items(rank);
    const size_t first = items * q / pieces;
    return piece_t{first, items * (q + 1) / pieces - first};
  };
  const auto combine = [&](int s, size_t q) {
    const int rank = plan.neighbour(-2 - s);
    const piece_t piece = piece_of(rank, q);
    const size_t offset = piece.first * blocks.item_size;
    const std::byte* const mine = at(in, blocks.offset(rank) + offset);
    if (s < n - 2) return plan.combine(mine, partial[s % 2] + offset, piece.items);
    plan.copy(at(own, offset), mine, piece.items * blocks.item_size);
    plan.combine(partial[s % 2] + offset, at(own, offset), piece.items);
  };

  for (int s = 0; s < n - 1; ++s) {
    for (size_t q = 0; q < pieces; ++q) {
      const int out_rank = plan.neighbour(-1 - s);
      const piece_t out = piece_of(out_rank, q);
      const size_t out_offset = out.first * blocks.item_size;
      const std::byte* const from =
          s == 0 ? at(in, blocks.offset(out_rank) + out_offset) : partial[(s - 1) % 2] + out_offset;
      const piece_t next = piece_of(plan.neighbour(-2 - s), q);
      std::byte* const into = partial[s % 2] + next.first * blocks.item_size;
      if (next.items > 0) plan.recv(plan.neighbour(-1), into, next.items * blocks.item_size);
      if (out.items > 0) plan.send(plan.neighbour(1), from, out.items * blocks.item_size);
      // The piece before this one: its result is needed `pieces` - 1 phases from now at the
      // earliest.
      const bool overlap = pieces > 1;
      if (overlap && (s > 0 || q > 0)) combine(q > 0 ? s : s - 1, (q + pieces - 1) % pieces);
      plan.join();
      if (!overlap) combine(s, q);
    }
  }
  if (pieces > 1) combine(n - 2, pieces - 1);
}

void plan_direct_reduce(plan_t& plan, const void* in, size_t stride, void* out, size_t items,
                        size_t item_size) {
  const int n = plan.n();
  const int me = plan.me();
  const size_t size = items * item_size;
  std::byte* const others = plan.scratch(static_cast<size_t>(n - 1) * size);
  // Blocks of the other ranks lie in rank order, without a gap for this one.
  const auto block_of = [&](int rank) {
    return others + static_cast<size_t>(rank < me ? rank : rank - 1) * size;
  };
  for (int distance = 1; distance < n; ++distance) {
    const int to = plan.neighbour(distance);
    const int from = plan.neighbour(-distance);
    plan.recv(from, block_of(from), size);
    plan.send(to, at(in, static_cast<size_t>(to) * stride), size);
    if (distance % EXCHANGES_TOGETHER == 0) plan.join();
  }
  plan.join();

  const std::byte* mine = at(in, static_cast<size_t>(me) * stride);
  if (mine == out && me != 0) {
    // In place: rank 0's contribution is about to be written over it.
    std::byte* const saved = plan.scratch(size);
    plan.copy(saved, mine, size);
    mine = saved;
  }
  plan.copy(out, me == 0 ? mine : block_of(0), size);
  for (int rank = 1; rank < n; ++rank) {
    plan.combine(rank == me ? mine : block_of(rank), out, items);
  }
}

reduce_scatter_algorithm_t choose_reduce_scatter(size_t size, int n) {
  if (size > SMALL_COLLECTIVE) return reduce_scatter_algorithm_t::ring;
  return n <= FEW_RANKS ? reduce_scatter_algorithm_t::direct : reduce_scatter_algorithm_t::tree;
}

void plan_reduce_scatter(plan_t& plan, const items_t& items, reduce_scatter_algorithm_t algorithm,
                         int nsteps) {
  if (items.bytes() == 0) return;
  if (plan.n() == 1) return plan.copy(items.out, items.in, items.bytes());
  const blocks_t blocks{items.count, items.item_size, plan.n()};
  switch (algorithm) {
    case reduce_scatter_algorithm_t::direct:
      return plan_direct_reduce(plan, items.in, blocks.bytes(0), items.out, blocks.items(0),
                                items.item_size);
    case reduce_scatter_algorithm_t::tree:
      return reduce_and_scatter(plan, items);
    case reduce_scatter_algorithm_t::ring:
      return plan_ring_reduce(plan, items.in, items.out, blocks, nsteps);
    case reduce_scatter_algorithm_t::none:
      break;
  }
  plan_reduce_scatter(plan, items, choose_reduce_scatter(items.bytes(), plan.n()), nsteps);
}

size_t blocks_t::first(int rank) const {
  const size_t ranks = static_cast<size_t>(n);
  const size_t r = static_cast<size_t>(rank);
  // The first `count % n` blocks have one item more.
  return count / ranks * r + (r < count % ranks ? r : count % ranks);
}

}  // namespace lci::coll

namespace lci::detail {

void reduce_scatter(const collective_args& args) {
  const coll::resources_t resources = coll::resources_of(args);
  const int n = get_rank_n();
  coll::check_op("reduce_scatter", args.op);
  const size_t block = coll::checked_product("reduce_scatter", args.count, args.item_size);
  const size_t size = coll::checked_product("reduce_scatter", block, static_cast<size_t>(n));
  coll::check_buffer("reduce_scatter", "sendbuf", args.sendbuf, size);
  coll::check_buffer("reduce_scatter", "recvbuf", args.recvbuf, block);
  coll::check_algorithm("reduce_scatter", args.reduce_scatter_algorithm);
  const int nsteps = coll::ring_steps("reduce_scatter", args.ring_nsteps, n);
  coll::plan_t plan(get_rank_me(), n);
  const coll::items_t items{args.sendbuf, args.recvbuf, args.count * static_cast<size_t>(n),
                            args.item_size};
  coll::plan_reduce_scatter(plan, items, args.reduce_scatter_algorithm, nsteps);
  coll::run(std::move(plan), resources, args.op, args.comp,
            {.operation = "reduce_scatter",
             .count = args.count,
             .item_size = args.item_size,
             .algorithm = static_cast<int>(args.reduce_scatter_algorithm),
             .nsteps = nsteps});
}

}  // namespace lci::detail
