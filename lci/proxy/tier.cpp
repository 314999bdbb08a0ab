#include "lci/proxy/tier.hpp"

#include <vector>

#include "lci/net/gpu_tiers.hpp"

namespace lci::proxy {

attr_gpu_tier_t choose_tier(attr_gpu_tier_t wanted, attr_gpu_proxy_t proxy) {
  std::vector<net::tier_report> all;
  for (const net::gpu_tier tier : net::GPU_TIERS) {
    const char* const why_not = tier != net::gpu_tier::proxy     ? "an endpoint uses no card yet"
                                : proxy == attr_gpu_proxy_t::off ? net::PROXY_IS_OFF
                                                                 : "";
    all.push_back({tier, why_not});
  }
  return net::choose_gpu_tier(wanted, all);
}

}  // namespace lci::proxy
