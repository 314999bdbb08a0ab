#include "experimental/ibv/gpu_tiers/target_queue.hpp"

#include <cerrno>

#include "backends/ibv/errors.hpp"

namespace lci::ibv {
namespace {

cq_handle make_small_cq(const mlx5_card& on) {
  ibv_cq* const made = library().create_cq(on.port.context.get(), 1, nullptr, nullptr, 0);
  if (made == nullptr) throw_error("ibv_create_cq", on.port.name + ", 1 entry", errno);
  return cq_handle(made);
}

qp_handle make_idle_pair(const mlx5_card& on, ibv_cq* cq) {
  pair_settings wanted{cq, 1, 0, false};
  return make_mlx5_pair(on, wanted);
}

}  // namespace

target_queue::target_queue(const mlx5_card& card)
    : queue_base(card, tier_options{}),
      cq_(make_small_cq(card)),
      qp_(make_idle_pair(card, cq_.get())) {}

}  // namespace lci::ibv
