#include "lci/proxy/tier.hpp"

#include <vector>

namespace lci::proxy {
namespace {

// Why an endpoint uses no card, apart from what the card says; null: it may.
const char* why_no_card(const tier_question& asked) noexcept {
  if (asked.card == nullptr)
    return "the network of the device drives no card that kernels can use (backend ibv)";
  if (asked.ranks != 1)
    return "queue pairs between ranks are not exchanged yet: only a job of one rank uses a card";
  if (asked.wanted == attr_gpu_tier_t::automatic && !asked.is_for_gpu)
    return "threads of the process use a card only if the tier is asked for by name (gpu_tier)";
  return nullptr;
}

std::vector<net::tier_report> upper_tiers(const tier_question& asked) {
  const char* const why_not = why_no_card(asked);
  // By name: whether it works is seen when its queues are made.
  if (why_not == nullptr && asked.wanted == attr_gpu_tier_t::automatic) return asked.card->tiers();
  std::vector<net::tier_report> all;
  for (const net::gpu_tier tier : net::GPU_TIERS)
    if (tier != net::gpu_tier::proxy) all.push_back({tier, why_not != nullptr ? why_not : ""});
  return all;
}

}  // namespace

attr_gpu_tier_t choose_tier(const tier_question& asked) {
  std::vector<net::tier_report> all = upper_tiers(asked);
  all.push_back(
      {net::gpu_tier::proxy, asked.proxy == attr_gpu_proxy_t::off ? net::PROXY_IS_OFF : ""});
  return net::choose_gpu_tier(asked.wanted, all);
}

}  // namespace lci::proxy
