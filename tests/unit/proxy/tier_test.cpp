#include "lci/proxy/tier.hpp"

#include <gtest/gtest.h>

#include <string>

#include "lci/errors.hpp"

namespace lci::proxy {
namespace {

std::string refusal(attr_gpu_tier_t wanted, attr_gpu_proxy_t proxy) {
  try {
    choose_tier(wanted, proxy);
  } catch (const backend_error& error) {
    return error.what();
  }
  return "";
}
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(choose_tier, the_proxy_where_it_is_on) {
  for (const attr_gpu_proxy_t how : {attr_gpu_proxy_t::progress, attr_gpu_proxy_t::thread})
    for (const attr_gpu_tier_t wanted : {attr_gpu_tier_t::automatic, attr_gpu_tier_t::proxy})
      EXPECT_EQ(choose_tier(wanted, how), attr_gpu_tier_t::proxy);
}

TEST(choose_tier, none_is_usable__every_reason_is_named) {
  const std::string text = refusal(attr_gpu_tier_t::automatic, attr_gpu_proxy_t::off);
  for (const char* part :
       {"T0 GPU direct", "T1 GPU writes", "T2 CPU forwards", "T3 CPU proxy", "gpu_proxy is off"})
    EXPECT_TRUE(has(text, part)) << part << ": " << text;
}

// Nothing takes its place, although the proxy is there.
TEST(choose_tier, forced__and_not_usable) {
  for (const attr_gpu_tier_t wanted :
       {attr_gpu_tier_t::gpu_direct, attr_gpu_tier_t::cpu_rings, attr_gpu_tier_t::cpu_forwards}) {
    const std::string text = refusal(wanted, attr_gpu_proxy_t::progress);
    EXPECT_TRUE(has(text, "asked for")) << text;
    EXPECT_FALSE(has(text, "T3")) << text;
  }
  EXPECT_TRUE(has(refusal(attr_gpu_tier_t::proxy, attr_gpu_proxy_t::off), "gpu_proxy is off"));
}

}  // namespace
}  // namespace lci::proxy
