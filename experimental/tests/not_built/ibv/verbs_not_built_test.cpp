// A build without the experimental parts of verbs: who asks for one hears which option builds it,
// and nobody else notices.
#include "backends/ibv/completions.hpp"
#include "backends/ibv/data_direct.hpp"
#include "backends/ibv/gpu_tiers.hpp"
#include "backends/ibv/registrar.hpp"
#include "backends/ibv/select.hpp"
#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

class verbs_not_built : public on_a_card {
 protected:
  // A card's registrar with the rules that LCI_GPU_REGISTRATION says.
  static void make_registrar(const char* rules) {
    const chosen_port port = open_best_port({});
    const pd_handle pd(library().alloc_pd(port.context.get()));
    net::fabric_config config;
    config.gpu_rules = mem::ladder_rules::parse(true, "LCI_GPU_REGISTRATION", rules);
    const registrar one(pd.get(), port.name, config);
  }
};

TEST_F(verbs_not_built, extended_completion_queue__asked_for_is_an_error_that_names_the_option) {
  const chosen_port port = open_best_port({});
  environment_.set("LCI_IBV_EXTENDED_CQ", "1");
  EXPECT_TRUE(test::throws_with<backend_error>(
      [&] { completions(port, 10); },
      {"LCI_IBV_EXTENDED_CQ", "experimental and not built", "-DLCI_EXPERIMENTAL=ON"}));
  environment_.set("LCI_IBV_EXTENDED_CQ", "0");
  completions(port, 10);
}

TEST_F(verbs_not_built, data_direct__asked_for_is_an_error_that_names_the_option) {
  EXPECT_TRUE(test::throws_with<backend_error>(
      [&] { make_registrar("data_direct"); },
      {"LCI_GPU_REGISTRATION", "experimental and not built", "-DLCI_EXPERIMENTAL=ON"}));
}

TEST_F(verbs_not_built, data_direct__asked_for_with_others_leaves_those) {
  for (const char* rules : {"data_direct,dma_buf", "peer_memory,data_direct"})
    make_registrar(rules);
}

TEST_F(verbs_not_built, data_direct__not_asked_for_is_left_out) {
  for (const char* rules : {"auto", "^data_direct", "dma_buf"}) make_registrar(rules);
}

TEST_F(verbs_not_built, gpu_tiers__asked_for_are_an_error_that_names_the_option) {
  const chosen_port port = open_best_port({});
  for (const net::gpu_tier tier : net::GPU_TIERS) {
    tier_options options;
    options.tier = tier;
    EXPECT_TRUE(test::throws_with<backend_error>(
        [&] { gpu_tiers::open(port, nullptr, options); },
        {net::name_of(tier), "experimental and not built", "-DLCI_EXPERIMENTAL=ON"}));
  }
}

TEST_F(verbs_not_built, gpu_tiers__the_proxy_is_the_highest) {
  const auto all = net::list_gpu_tiers({&PROVIDER, 1}, {}, true);
  ASSERT_EQ(all.size(), net::GPU_TIERS.size());
  for (const net::tier_report& one : all)
    EXPECT_EQ(one.why_not, one.tier == net::gpu_tier::proxy
                               ? ""
                               : "experimental, not built: configure with -DLCI_EXPERIMENTAL=ON");
  EXPECT_EQ(net::choose_gpu_tier(net::gpu_tier::automatic, all), net::gpu_tier::proxy);
  EXPECT_TRUE(
      test::throws_with<backend_error>([&] { net::choose_gpu_tier(net::gpu_tier::cpu_rings, all); },
                                       {"T1 GPU writes, CPU rings", "experimental, not built"}));
}

class multi_rail_not_built : public verbs_not_built {
 protected:
  multi_rail_not_built() {
    test::fake_ibv_config config;
    config.devices = test::fake_cards(2);
    card().reset(config);
  }
};

TEST_F(multi_rail_not_built, several_cards__asked_for_are_an_error_that_names_the_option) {
  net::fabric_config list;
  list.device_name = "fake_0,fake_1";
  environment_.set("LCI_IBV_RAILS", "2");
  for (const net::fabric_config& one : {net::fabric_config(), list})
    EXPECT_TRUE(
        test::throws_with<backend_error>([&] { open_ports(settings_of(one)); },
                                         {one.device_name.empty() ? "LCI_IBV_RAILS" : "device_name",
                                          "experimental and not built", "-DLCI_EXPERIMENTAL=ON"}));
}

TEST_F(multi_rail_not_built, report__says_of_each_card_why_it_is_not_used) {
  environment_.set("LCI_IBV_RAILS", "2");
  const auto all = report({});
  ASSERT_EQ(all.size(), 2u);
  for (const net::card_report& one : all) {
    EXPECT_FALSE(one.is_chosen) << one.name;
    EXPECT_NE(one.why.find("-DLCI_EXPERIMENTAL=ON"), std::string::npos) << one.why;
  }
}

TEST_F(multi_rail_not_built, as_many_as_there_are__is_one) {
  environment_.set("LCI_IBV_RAILS", "auto");
  EXPECT_EQ(open_ports(settings_of({})).size(), 1u);
}

}  // namespace
}  // namespace lci::ibv
