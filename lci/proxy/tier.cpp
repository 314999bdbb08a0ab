#include "lci/proxy/tier.hpp"

#include <vector>

#include "lci/base/log.hpp"

namespace lci::proxy {
namespace {

// Why an endpoint uses no card, apart from what the card says; null: it may.
const char* why_no_card(const tier_question& asked) noexcept {
  if (asked.card == nullptr)
    return "the network of the device drives no card that kernels can use (backend ibv)";
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

std::vector<net::tier_report> list_tiers(const tier_question& asked) {
  std::vector<net::tier_report> all = upper_tiers(asked);
  all.push_back(
      {net::gpu_tier::proxy, asked.proxy == attr_gpu_proxy_t::off ? net::PROXY_IS_OFF : ""});
  return all;
}

void set_aside(std::vector<net::tier_report>& all, attr_gpu_tier_t tier, const char* why_not) {
  for (net::tier_report& one : all)
    if (one.tier == tier) one.why_not = why_not;
  base::log::warn("gpu", "%s; the next lower tier is tried", why_not);
}

}  // namespace lci::proxy
