// alltoall: block r of this rank's array goes to rank r, where it becomes block "this rank".
#include "lci/coll/algorithms.hpp"
#include "lci/coll/arguments.hpp"
#include "lci/coll/run.hpp"

namespace lci::coll {

// Pairwise, as in the allgather.
void plan_alltoall(plan_t& plan, const void* in, void* out, size_t size) {
  if (size == 0) return;
  const auto offset = [&](int rank) { return static_cast<size_t>(rank) * size; };
  plan.copy(at(out, offset(plan.me())), at(in, offset(plan.me())), size);
  for (int distance = 1; distance < plan.n(); ++distance) {
    const int to = plan.neighbour(distance);
    const int from = plan.neighbour(-distance);
    plan.recv(from, at(out, offset(from)), size);
    plan.send(to, at(in, offset(to)), size);
    if (distance % EXCHANGES_TOGETHER == 0) plan.join();
  }
}

}  // namespace lci::coll

namespace lci::detail {

void alltoall(const collective_args& args) {
  const coll::resources_t resources = coll::resources_of(args);
  const int n = get_rank_n();
  const size_t size = coll::checked_product("alltoall", args.count, static_cast<size_t>(n));
  coll::check_buffer("alltoall", "sendbuf", args.sendbuf, size);
  coll::check_buffer("alltoall", "recvbuf", args.recvbuf, args.count);
  coll::check_buffer("alltoall", "recvbuf", args.recvbuf, size);
  if (args.sendbuf == args.recvbuf && args.count > 0) {
    throw argument_error(
        "alltoall: recvbuf is the same array as sendbuf, but this operation does not work in "
        "place");
  }
  coll::plan_t plan(get_rank_me(), n);
  coll::plan_alltoall(plan, args.sendbuf, args.recvbuf, args.count);
  coll::run(std::move(plan), resources, nullptr, args.comp,
            {.operation = "alltoall", .count = args.count});
}

}  // namespace lci::detail
