// broadcast: `size` bytes of the root arrive at every rank.
#include "lci/coll/algorithms.hpp"
#include "lci/coll/arguments.hpp"
#include "lci/coll/run.hpp"

namespace lci::coll {
namespace {

void direct(plan_t& plan, void* buffer, size_t size, int root) {
  if (plan.me() != root) return plan.recv(root, buffer, size);
  for (int peer = 0; peer < plan.n(); ++peer) {
    if (peer != root) plan.send(peer, buffer, size);
  }
}

// A binomial tree over places, where place 0 is the root. The parent of a place is the place
// without its lowest set bit; its children differ from it in one bit below that one. The biggest
// subtree is served first, since it takes longest.
void tree(plan_t& plan, void* buffer, size_t size, int root) {
  const int place = (plan.me() - root + plan.n()) % plan.n();
  const auto rank_of = [&](int p) { return (p + root) % plan.n(); };
  int bit = 1;
  while (bit < plan.n() && (place & bit) == 0) bit *= 2;
  if (place != 0) {
    plan.recv(rank_of(place - bit), buffer, size);
    plan.join();
  }
  for (bit /= 2; bit > 0; bit /= 2) {
    if (place + bit < plan.n()) plan.send(rank_of(place + bit), buffer, size);
  }
}

// A chain along the ring, in pieces: while one piece goes on to the next rank, the following one
// comes in, so that for many pieces every link is busy all the time whatever the number of ranks.
void ring(plan_t& plan, void* buffer, size_t size, int root, int nsteps) {
  const size_t pieces = static_cast<size_t>(nsteps);
  const size_t piece = size / pieces + (size % pieces != 0 ? 1 : 0);
  const bool receives = plan.me() != root;
  const bool sends = plan.neighbour(1) != root;
  for (size_t offset = 0; offset < size; offset += piece) {
    const size_t bytes = size - offset < piece ? size - offset : piece;
    if (receives) {
      plan.recv(plan.neighbour(-1), at(buffer, offset), bytes);
      plan.join();
    }
    if (sends) plan.send(plan.neighbour(1), at(buffer, offset), bytes);
  }
}

}  // namespace

broadcast_algorithm_t choose_broadcast(size_t size, int n) {
  if (size > SMALL_COLLECTIVE) return broadcast_algorithm_t::ring;
  return n <= FEW_RANKS ? broadcast_algorithm_t::direct : broadcast_algorithm_t::tree;
}

void plan_broadcast(plan_t& plan, void* buffer, size_t size, int root,
                    broadcast_algorithm_t algorithm, int nsteps) {
  if (size == 0 || plan.n() == 1) return;
  switch (algorithm) {
    case broadcast_algorithm_t::direct:
      return direct(plan, buffer, size, root);
    case broadcast_algorithm_t::tree:
      return tree(plan, buffer, size, root);
    case broadcast_algorithm_t::ring:
      return ring(plan, buffer, size, root, nsteps);
    case broadcast_algorithm_t::none:
      break;
  }
  plan_broadcast(plan, buffer, size, root, choose_broadcast(size, plan.n()), nsteps);
}

}  // namespace lci::coll

namespace lci::detail {

void broadcast(const collective_args& args) {
  const coll::resources_t resources = coll::resources_of(args);
  const int n = get_rank_n();
  coll::check_root("broadcast", args.root, n);
  coll::check_buffer("broadcast", "buffer", args.recvbuf, args.count);
  coll::check_algorithm("broadcast", args.broadcast_algorithm);
  const int nsteps = coll::ring_steps("broadcast", args.ring_nsteps, n);
  coll::plan_t plan(get_rank_me(), n);
  coll::plan_broadcast(plan, args.recvbuf, args.count, args.root, args.broadcast_algorithm, nsteps);
  coll::run(std::move(plan), resources, nullptr, args.comp,
            {.operation = "broadcast",
             .count = args.count,
             .root = args.root,
             .algorithm = static_cast<int>(args.broadcast_algorithm),
             .nsteps = nsteps});
}

}  // namespace lci::detail
