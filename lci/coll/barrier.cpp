// barrier: no rank leaves before all ranks have arrived.
#include "lci/coll/algorithms.hpp"
#include "lci/coll/run.hpp"

namespace lci::coll {

// Dissemination: after round k a rank has heard, directly or through others, from the 2^(k+1) - 1
// ranks before it. log2(n) rounds, rounded up, and no rank does more than the others.
void plan_barrier(plan_t& plan) {
  for (int distance = 1; distance < plan.n(); distance *= 2) {
    plan.send(plan.neighbour(distance), nullptr, 0);
    plan.recv(plan.neighbour(-distance), nullptr, 0);
    plan.join();
  }
}

}  // namespace lci::coll

namespace lci::detail {

void barrier(const collective_args& args) {
  const coll::resources_t resources = coll::resources_of(args);
  coll::plan_t plan(get_rank_me(), get_rank_n());
  coll::plan_barrier(plan);
  coll::run(std::move(plan), resources, nullptr, args.comp, {.operation = "barrier"});
}

}  // namespace lci::detail
