#include "lci/proxy/tier.hpp"

#include <string>

#include "lci/errors.hpp"

namespace lci::proxy {
namespace {

constexpr const char* NO_CARD = "this build has no tier that uses a card";
constexpr const char* PROXY_IS_OFF =
    "the option gpu_proxy is off: set it to progress or thread (LCI_ATTR_GPU_PROXY, or "
    ".gpu_proxy() of the endpoint)";

}  // namespace

attr_gpu_tier_t choose_tier(attr_gpu_tier_t wanted, attr_gpu_proxy_t proxy) {
  const bool is_off = proxy == attr_gpu_proxy_t::off;
  switch (wanted) {
    case attr_gpu_tier_t::gpu_direct:
    case attr_gpu_tier_t::cpu_rings:
    case attr_gpu_tier_t::cpu_forwards:
      throw backend_error(std::string("alloc_gpu_endpoint: the gpu_tier that was asked for is not "
                                      "usable: ") +
                          NO_CARD);
    case attr_gpu_tier_t::proxy:
      if (is_off)
        throw backend_error(std::string("alloc_gpu_endpoint: gpu_tier proxy is not usable: ") +
                            PROXY_IS_OFF);
      break;
    case attr_gpu_tier_t::automatic:
      if (is_off)
        throw backend_error(std::string("alloc_gpu_endpoint: no tier is usable. gpu_direct, "
                                        "cpu_rings, cpu_forwards: ") +
                            NO_CARD + "; proxy: " + PROXY_IS_OFF);
      break;
  }
  return attr_gpu_tier_t::proxy;
}

}  // namespace lci::proxy
