#include "backends/ofi/select.hpp"

#include "lci/errors.hpp"
#include "tests/support/scoped_env.hpp"
#include "tests/unit/ofi/world.hpp"

namespace lci::ofi {
namespace {

class select_test : public on_a_network {
 protected:
  // What choose() says when it refuses.
  static std::string refusal(const provider_settings& wanted = {}) {
    try {
      std::string why;
      choose(wanted, why);
    } catch (const backend_error& e) {
      return e.what();
    }
    return "";
  }
  static void expect_in(const std::string& part, const std::string& text) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
};

}  // namespace

TEST_F(select_test, choose__says_why) {
  std::string why;
  const candidate one = choose({}, why);
  EXPECT_EQ(one.name(), "fake fake0");
  EXPECT_EQ(why, "the only one");
  EXPECT_EQ(one.how, delivery::complete);
  EXPECT_EQ(one.info->tx_attr->op_flags, 0u) << "a flag for all operations costs all of them";
  choose({.domain = "fake0"}, why);
  EXPECT_EQ(why, "device_name says so");
}

// Two ranks of a job have the provider that jobs have.
TEST_F(select_test, choose__one_of_many_takes_no_pool) {
  test::fake_ofi_config config;
  config.provider = "tcp;ofi_rxm";
  config.also = "net";
  fake().reset(config);
  std::string why;
  EXPECT_EQ(choose({}, why).provider(), "tcp;ofi_rxm");
  EXPECT_EQ(choose({.is_one_of_many = true}, why).provider(), "net");
  EXPECT_EQ(why, "the best of 2");
  EXPECT_EQ(choose({.provider = "tcp;ofi_rxm", .is_one_of_many = true}, why).provider(),
            "tcp;ofi_rxm");
  config.also = "tcp";
  fake().reset(config);
  EXPECT_EQ(choose({.is_one_of_many = true}, why).provider(), "tcp");
  config.also = "verbs;ofi_rxm";
  fake().reset(config);
  EXPECT_EQ(choose({.is_one_of_many = true}, why).provider(), "verbs;ofi_rxm");
}

TEST_F(select_test, choose__refuses_with_what_was_asked_for) {
  expect_in("ofi_provider_name", refusal({.provider = "cxi"}));
  expect_in("device_name is eth7", refusal({.domain = "eth7"}));
}

TEST_F(select_test, choose__refuses_and_recalls_what_limits_libfabric) {
  test::scoped_env vars;
  vars.unset("FI_PROVIDER");
  EXPECT_EQ(refusal({.provider = "cxi"}).find("FI_PROVIDER"), std::string::npos);
  vars.set("FI_PROVIDER", "verbs");
  expect_in("FI_PROVIDER=verbs", refusal({.provider = "cxi"}));
}

TEST_F(select_test, choose__refuses_raw_keys) {
  test::fake_ofi_config config;
  config.mr_mode = FI_MR_RAW;
  fake().reset(config);
  expect_in("FI_MR_RAW", refusal());
  config.mr_mode = 0;
  config.key_bytes = 16;
  fake().reset(config);
  expect_in("longer than 64 bits", refusal());
}

TEST_F(select_test, choose__refuses_who_neither_tells_of_writes_nor_keeps_order) {
  test::fake_ofi_config config;
  config.has_delivery = false;
  fake().reset(config);  // its name is none of those that have one stream
  expect_in("neither says when a write has arrived", refusal());
}

TEST_F(select_test, delivery__is_what_the_provider_can) {
  test::fake_ofi_config config;
  config.has_delivery = false;
  config.provider = "tcp";
  fake().reset(config);
  std::string why;
  EXPECT_EQ(choose({}, why).how, delivery::asked);
  config.provider = "verbs;ofi_rxm";
  fake().reset(config);
  EXPECT_EQ(choose({}, why).how, delivery::acknowledged);
}

TEST_F(select_test, has_write_data__only_where_our_word_fits_and_keys_serve_all) {
  const auto has = [](std::size_t bytes, int mr_mode, const char* provider) {
    test::fake_ofi_config config;
    config.data_bytes = bytes;
    config.mr_mode = mr_mode;
    config.provider = provider;
    fake().reset(config);
    std::string why;
    return has_write_data(*choose({}, why).info);
  };
  EXPECT_TRUE(has(8, 0, "fake"));
  EXPECT_FALSE(has(4, 0, "fake"));
  EXPECT_FALSE(has(8, FI_MR_ENDPOINT, "fake"));
  EXPECT_FALSE(has(8, 0, "cxi"));
  test::scoped_env environment;
  environment.set("FI_CXI_ENABLE_WRITEDATA", "1");
  EXPECT_FALSE(has(8, 0, "cxi")) << "this library is older than 2.5";
}

TEST_F(select_test, report__names_the_one_that_is_used) {
  const auto lines = report({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].is_chosen);
  EXPECT_EQ(lines[0].name, "fake fake0");
  EXPECT_EQ(probe(), "");
}

TEST_F(select_test, report__says_at_which_address) {
  const auto said = [](const char* source) {
    test::fake_ofi_config config;
    config.source = source;
    fake().reset(config);
    return report({}).at(0).what;
  };
  EXPECT_EQ(said("10.1.2.3").find("10.1.2.3, inject 128"), 0u) << said("10.1.2.3");
  EXPECT_EQ(said("fe80::1:2").find("fe80::1:2, inject 128"), 0u) << said("fe80::1:2");
  EXPECT_EQ(said("fake://here").find("fake://here, inject 128"), 0u) << said("fake://here");
}

TEST_F(select_test, report__says_where_the_card_is) {
  EXPECT_EQ(report({}).at(0).pci, "") << "this one tells of no card";
  test::fake_ofi_config config;
  config.pci = "0001:3b:1f.7";
  fake().reset(config);
  EXPECT_EQ(report({}).at(0).pci, "0001:3b:1f.7");
}

}  // namespace lci::ofi
