// allreduce: every rank gets the combination of all contributions, with the same bits everywhere.
#include "lci/coll/algorithms.hpp"
#include "lci/coll/arguments.hpp"
#include "lci/coll/run.hpp"

namespace lci::coll {
namespace {

// Reduce the blocks along the ring, so that each rank ends with one of them, then pass these round.
// Each rank sends 2 (n-1)/n of the data in all, the least there is for large arrays.
void ring(plan_t& plan, const items_t& items, int nsteps) {
  const blocks_t blocks{items.count, items.item_size, plan.n()};
  plan_ring_reduce(plan, items.in, at(items.out, blocks.offset(plan.me())), blocks, nsteps);
  for (int back = 0; back < plan.n() - 1; ++back) {
    const int mine = plan.neighbour(-back);
    const int theirs = plan.neighbour(-back - 1);
    if (blocks.bytes(mine) > 0) {
      plan.send(plan.neighbour(1), at(items.out, blocks.offset(mine)), blocks.bytes(mine));
    }
    if (blocks.bytes(theirs) > 0) {
      plan.recv(plan.neighbour(-1), at(items.out, blocks.offset(theirs)), blocks.bytes(theirs));
    }
    plan.join();
  }
}

void tree(plan_t& plan, const items_t& items) {
  plan_reduce(plan, items, 0);
  // In place, the array that was sent up is the one that the result comes down into.
  plan.join();
  plan_broadcast(plan, items.out, items.bytes(), 0, broadcast_algorithm_t::tree, 1);
}

}  // namespace

allreduce_algorithm_t choose_allreduce(size_t size, int n) {
  if (size > SMALL_COLLECTIVE) return allreduce_algorithm_t::ring;
  return n <= FEW_RANKS ? allreduce_algorithm_t::direct : allreduce_algorithm_t::tree;
}

void plan_allreduce(plan_t& plan, const items_t& items, allreduce_algorithm_t algorithm,
                    int nsteps) {
  if (items.bytes() == 0) return;
  if (plan.n() == 1) return plan.copy(items.out, items.in, items.bytes());
  switch (algorithm) {
    case allreduce_algorithm_t::direct:
      return plan_direct_reduce(plan, items.in, 0, items.out, items.count, items.item_size);
    case allreduce_algorithm_t::tree:
      return tree(plan, items);
    case allreduce_algorithm_t::ring:
      return ring(plan, items, nsteps);
    case allreduce_algorithm_t::none:
      break;
  }
  plan_allreduce(plan, items, choose_allreduce(items.bytes(), plan.n()), nsteps);
}

}  // namespace lci::coll

namespace lci::detail {

void allreduce(const collective_args& args) {
  const coll::resources_t resources = coll::resources_of(args);
  const int n = get_rank_n();
  coll::check_op("allreduce", args.op);
  const size_t size = coll::checked_product("allreduce", args.count, args.item_size);
  coll::check_buffer("allreduce", "sendbuf", args.sendbuf, size);
  coll::check_buffer("allreduce", "recvbuf", args.recvbuf, size);
  coll::check_algorithm("allreduce", args.allreduce_algorithm);
  const int nsteps = coll::ring_steps("allreduce", args.ring_nsteps, n);
  coll::plan_t plan(get_rank_me(), n);
  const coll::items_t items{args.sendbuf, args.recvbuf, args.count, args.item_size};
  coll::plan_allreduce(plan, items, args.allreduce_algorithm, nsteps);
  coll::run(std::move(plan), resources, args.op, args.comp,
            {.operation = "allreduce",
             .count = args.count,
             .item_size = args.item_size,
             .algorithm = static_cast<int>(args.allreduce_algorithm),
             .nsteps = nsteps});
}

}  // namespace lci::detail
