#include "lci/net/gpu_tiers.hpp"

#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "lci/net/provider.hpp"
#include "tests/support/must_fire.hpp"

namespace lci::net {
namespace {

std::vector<tier_report> with(std::string t0, std::string t1, std::string t2, std::string t3) {
  return {{gpu_tier::gpu_direct, std::move(t0)},
          {gpu_tier::cpu_rings, std::move(t1)},
          {gpu_tier::cpu_forwards, std::move(t2)},
          {gpu_tier::proxy, std::move(t3)}};
}

std::vector<tier_report> of_cards(const fabric_config& config) {
  return {{gpu_tier::gpu_direct, config.device_name},
          {gpu_tier::cpu_rings, ""},
          {gpu_tier::cpu_forwards, ""}};
}

TEST(gpu_tiers, list__has_all_four_highest_first) {
  provider without, card;
  card.gpu_tiers = &of_cards;
  fabric_config config;
  config.device_name = "asked";
  const provider networks[] = {without, card};
  const auto all = list_gpu_tiers(networks, config, true);
  ASSERT_EQ(all.size(), GPU_TIERS.size());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].tier, GPU_TIERS[i]);
  EXPECT_EQ(all[0].why_not, "asked");
  EXPECT_EQ(all[3].why_not, "");
}

TEST(gpu_tiers, list__proxy_that_is_off_names_the_option) {
  for (const char* text : {"gpu_proxy", "LCI_ATTR_GPU_PROXY"})
    EXPECT_NE(list_gpu_tiers({}, {}, false)[3].why_not.find(text), std::string::npos);
}

TEST(gpu_tiers, list__no_network_with_cards_leaves_the_proxy) {
  const auto all = list_gpu_tiers({}, {}, true);
  ASSERT_EQ(all.size(), GPU_TIERS.size());
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all[i].tier, GPU_TIERS[i]);
    EXPECT_NE(all[i].why_not.find("backend ibv"), std::string::npos) << all[i].why_not;
  }
  EXPECT_EQ(choose_gpu_tier(gpu_tier::automatic, all), gpu_tier::proxy);
}

TEST(gpu_tiers, choose__highest_usable) {
  EXPECT_EQ(choose_gpu_tier(gpu_tier::automatic, with("", "", "", "")), gpu_tier::gpu_direct);
  EXPECT_EQ(choose_gpu_tier(gpu_tier::automatic, with("a", "", "", "")), gpu_tier::cpu_rings);
  EXPECT_EQ(choose_gpu_tier(gpu_tier::automatic, with("a", "b", "", "")), gpu_tier::cpu_forwards);
  EXPECT_EQ(choose_gpu_tier(gpu_tier::automatic, with("a", "b", "c", "")), gpu_tier::proxy);
}

TEST(gpu_tiers, choose__none_is_an_error_with_every_reason) {
  EXPECT_TRUE(test::throws_with<backend_error>(
      [] { choose_gpu_tier(gpu_tier::automatic, with("no card", "no ring", "no raw", "off")); },
      {"T0 GPU direct: no card", "T1 GPU writes, CPU rings: no ring",
       "T2 CPU forwards raw work requests: no raw", "T3 CPU proxy: off"}));
}

TEST(gpu_tiers, choose__one_that_is_asked_for_is_used_or_an_error) {
  for (const gpu_tier wanted : GPU_TIERS) {
    EXPECT_EQ(choose_gpu_tier(wanted, with("", "", "", "")), wanted);
    auto all = with("", "", "", "");
    for (tier_report& one : all)
      if (one.tier == wanted) one.why_not = "this is why";
    EXPECT_TRUE(test::throws_with<backend_error>(
        [&] { choose_gpu_tier(wanted, all); },
        {std::string(name_of(wanted)) + ": this is why", "asked for"}));
  }
}

TEST(gpu_tiers, choose__one_that_is_not_in_the_list_is_an_error) {
  EXPECT_TRUE(test::throws_with<backend_error>([] { choose_gpu_tier(gpu_tier::cpu_rings, {}); },
                                               {"T1 GPU writes, CPU rings"}));
}

}  // namespace
}  // namespace lci::net
