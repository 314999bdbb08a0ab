// allgather: every rank gets the contributions of all ranks, in the order of ranks.
#include "lci/coll/algorithms.hpp"
#include "lci/coll/arguments.hpp"
#include "lci/coll/run.hpp"

namespace lci::coll {

// Pairwise: at distance d every rank sends to the rank d places on and receives from the one d
// places back, so that no rank is the target of two senders at a time.
void plan_allgather(plan_t& plan, const void* in, void* out, size_t size) {
  if (size == 0) return;
  const auto block_of = [&](int rank) { return at(out, static_cast<size_t>(rank) * size); };
  // In place this is the same address and nothing is copied.
  plan.copy(block_of(plan.me()), in, size);
  for (int distance = 1; distance < plan.n(); ++distance) {
    const int from = plan.neighbour(-distance);
    plan.recv(from, block_of(from), size);
    plan.send(plan.neighbour(distance), in, size);
    if (distance % EXCHANGES_TOGETHER == 0) plan.join();
  }
}

}  // namespace lci::coll

namespace lci::detail {

void allgather(const collective_args& args) {
  const coll::resources_t resources = coll::resources_of(args);
  const int n = get_rank_n();
  const size_t size = coll::checked_product("allgather", args.count, static_cast<size_t>(n));
  coll::check_buffer("allgather", "sendbuf", args.sendbuf, args.count);
  coll::check_buffer("allgather", "recvbuf", args.recvbuf, args.count);
  coll::check_buffer("allgather", "recvbuf", args.recvbuf, size);
  coll::plan_t plan(get_rank_me(), n);
  coll::plan_allgather(plan, args.sendbuf, args.recvbuf, args.count);
  coll::run(std::move(plan), resources, nullptr, COMP_NULL,
            {.operation = "allgather", .count = args.count});
}

}  // namespace lci::detail
