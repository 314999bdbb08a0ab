// reduce: the root gets op(contribution of rank 0, ..., contribution of rank n-1), item by item.
#include "lci/coll/algorithms.hpp"
#include "lci/coll/arguments.hpp"
#include "lci/coll/run.hpp"

namespace lci::coll {

// The tree of the broadcast with its arrows turned round: each place combines what its children
// send, nearest child first, since the smallest subtree is ready first, and passes the result to
// its parent.
void plan_reduce(plan_t& plan, const items_t& items, int root) {
  const size_t size = items.bytes();
  if (size == 0) return;
  const int place = (plan.me() - root + plan.n()) % plan.n();
  const auto rank_of = [&](int p) { return (p + root) % plan.n(); };

  // A leaf passes its own contribution on and needs no memory of its own.
  const bool is_leaf = (place & 1) != 0 || place + 1 >= plan.n();
  void* sum = nullptr;
  if (place == 0) {
    sum = items.out;
  } else if (!is_leaf) {
    sum = plan.scratch(size);
  }
  if (sum != nullptr) plan.copy(sum, items.in, size);
  std::byte* const incoming = is_leaf ? nullptr : plan.scratch(size);

  for (int bit = 1; bit < plan.n(); bit *= 2) {
    if ((place & bit) != 0) {
      plan.send(rank_of(place - bit), is_leaf ? items.in : sum, size);
      return;
    }
    if (place + bit >= plan.n()) continue;
    plan.recv(rank_of(place + bit), incoming, size);
    plan.join();
    plan.combine(incoming, sum, items.count);
  }
}

}  // namespace lci::coll

namespace lci::detail {

void reduce(const collective_args& args) {
  const coll::resources_t resources = coll::resources_of(args);
  const int n = get_rank_n();
  const int me = get_rank_me();
  coll::check_root("reduce", args.root, n);
  coll::check_op("reduce", args.op);
  const size_t size = coll::checked_product("reduce", args.count, args.item_size);
  coll::check_buffer("reduce", "sendbuf", args.sendbuf, size);
  if (me == args.root) coll::check_buffer("reduce", "recvbuf", args.recvbuf, size);
  coll::plan_t plan(me, n);
  coll::plan_reduce(plan, {args.sendbuf, args.recvbuf, args.count, args.item_size}, args.root);
  coll::run(
      std::move(plan), resources, args.op, COMP_NULL,
      {.operation = "reduce", .count = args.count, .item_size = args.item_size, .root = args.root});
}

}  // namespace lci::detail
