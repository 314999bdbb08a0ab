#include "backends/ibv/gpu_tiers.hpp"

#include "experimental/ibv/gpu_tiers/direct_queue.hpp"
#include "experimental/ibv/gpu_tiers/mlx5_library.hpp"
#include "experimental/ibv/gpu_tiers/probe.hpp"
#include "experimental/ibv/gpu_tiers/raw_queue.hpp"
#include "experimental/ibv/gpu_tiers/target_queue.hpp"
#include "lci/errors.hpp"

namespace lci::ibv {
namespace {

mlx5_card card_of(const chosen_port& port, ibv_pd* pd) {
  const mlx5& lib = find_mlx5();
  if (!lib.why_not.empty()) throw backend_error("ibv: " + lib.why_not);
  if (const std::string why = why_not_mlx5(lib, port); !why.empty())
    throw backend_error("ibv: " + why);
  return {lib, port, pd};
}

}  // namespace

std::vector<net::tier_report> gpu_tiers::probe(const net::fabric_config& config) {
  std::string why_not;
  // libmlx5 needs it, and finds it loaded.
  if (find_library(why_not) == nullptr) return probe_tiers(config, {mlx5{}});
  return probe_tiers(config, {find_mlx5()});
}

std::unique_ptr<tier_queue> gpu_tiers::open(const chosen_port& card, ibv_pd* pd,
                                            const tier_options& options) {
  if (!wqe::is_power_of_two(options.blocks) || options.blocks < 2 ||
      options.blocks > wqe::MAX_RING_BLOCKS)
    throw backend_error("ibv: a queue for kernels of " + std::to_string(options.blocks) +
                        " blocks: a power of two is needed, up to " +
                        std::to_string(wqe::MAX_RING_BLOCKS));
  const mlx5_card on = card_of(card, pd);
  switch (options.tier) {
    case net::gpu_tier::gpu_direct:
    case net::gpu_tier::cpu_rings:
      return std::make_unique<direct_queue>(on, options);
    case net::gpu_tier::cpu_forwards:
      return std::make_unique<raw_queue>(on, options);
    default:
      throw backend_error("ibv: tier " + std::string(net::name_of(options.tier)) +
                          " is not one of a card");
  }
}

std::unique_ptr<tier_queue> gpu_tiers::open_target(const chosen_port& card, ibv_pd* pd) {
  return std::make_unique<target_queue>(card_of(card, pd));
}

}  // namespace lci::ibv
