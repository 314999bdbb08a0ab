#include "lci/net/gpu_tiers.hpp"

#include <algorithm>

#include "lci/errors.hpp"
#include "lci/net/provider.hpp"

namespace lci::net {

std::string_view name_of(gpu_tier tier) noexcept {
  switch (tier) {
    case gpu_tier::automatic:
      return "automatic";
    case gpu_tier::gpu_direct:
      return "T0 GPU direct";
    case gpu_tier::cpu_rings:
      return "T1 GPU writes, CPU rings";
    case gpu_tier::cpu_forwards:
      return "T2 CPU forwards raw work requests";
    case gpu_tier::proxy:
      return "T3 CPU proxy";
  }
  return "no tier";
}

std::vector<tier_report> list_gpu_tiers(std::span<const provider> networks,
                                        const fabric_config& config, bool has_proxy) {
  std::vector<tier_report> out;
  const auto with_cards = std::find_if(networks.begin(), networks.end(), [](const provider& one) {
    return one.gpu_tiers != nullptr;
  });
  if (with_cards != networks.end()) {
    out = with_cards->gpu_tiers(config);
  } else {
    for (const gpu_tier tier : GPU_TIERS)
      if (tier != gpu_tier::proxy)
        out.push_back({tier, "no network of this build drives such cards (backend ibv)"});
  }
  out.push_back({gpu_tier::proxy, has_proxy ? "" : PROXY_IS_OFF});
  return out;
}

gpu_tier choose_gpu_tier(gpu_tier wanted, std::span<const tier_report> all) {
  std::string reasons;
  for (const tier_report& one : all) {
    if (wanted != gpu_tier::automatic && one.tier != wanted) continue;
    if (one.why_not.empty()) return one.tier;
    reasons += (reasons.empty() ? "" : "; ") + std::string(name_of(one.tier)) + ": " + one.why_not;
  }
  if (wanted == gpu_tier::automatic)
    throw backend_error("no tier of GPU endpoints is usable: " + reasons);
  if (reasons.empty()) reasons = std::string(name_of(wanted)) + ": there is no such tier";
  throw backend_error("a tier of GPU endpoints was asked for that is not usable, " + reasons);
}

}  // namespace lci::net
