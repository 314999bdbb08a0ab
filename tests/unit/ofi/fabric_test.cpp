// Opening, and every way in which it fails; limits of what there is.
#include "backends/ofi/fabric.hpp"

#include "lci/errors.hpp"
#include "tests/unit/ofi/world.hpp"

namespace lci::ofi {
namespace {

class fabric_test : public on_a_network {};

}  // namespace

// What was made before is closed again, and the error names the call.
TEST_F(fabric_test, open__each_call_may_fail) {
  for (const char* call : {"fi_fabric", "fi_domain", "fi_cq_open", "fi_av_open", "fi_endpoint",
                           "fi_ep_bind", "fi_enable", "fi_getname", "fi_dupinfo"}) {
    fake().reset();
    // A queue of that size is not insisted on.
    const bool is_queue = std::string(call) == "fi_cq_open";
    fake().fail(call, 1, -FI_ENOSPC);
    if (is_queue) {
      EXPECT_NO_THROW(open(1)) << call;
      continue;
    }
    try {
      open(1);
      ADD_FAILURE() << call << " failed and nobody said so";
    } catch (const backend_error& e) {
      const std::string text = e.what();
      const std::string name = std::string(call) == "fi_dupinfo" ? "fi_allocinfo" : call;
      EXPECT_NE(text.find(name), std::string::npos) << text;
    }
    EXPECT_EQ(fake().live(), 0u) << call;
  }
}

TEST_F(fabric_test, open__without_receives_or_registrations_is_refused) {
  test::fake_ofi_config config;
  config.mr_mode = FI_MR_LOCAL;
  fake().reset(config);
  auto g = open(2);
  // Later it is a matter of the moment.
  fake().fail("fi_recv", 3, -FI_EAGAIN);
  meet(*g, 0, 1);
  EXPECT_GT(fake().calls("fi_mr_regattr"), 0u);
}

TEST_F(fabric_test, open__names_that_are_too_long_are_said) {
  test::fake_ofi_config config;
  config.name_prefix = std::string(MAX_NAME, 'x');
  fake().reset(config);
  try {
    open(1);
    ADD_FAILURE() << "accepted";
  } catch (const backend_error& e) {
    EXPECT_NE(std::string(e.what()).find("lci sends at most 64 bytes"), std::string::npos)
        << e.what();
  }
}

TEST_F(fabric_test, open__too_short_messages_are_refused) {
  test::fake_ofi_config config;
  config.most = 8255;
  fake().reset(config);
  EXPECT_THROW(open(1), backend_error);
}

TEST_F(fabric_test, caps__are_those_of_the_provider) {
  test::fake_ofi_config config;
  config.most = 100000;
  config.inject = 200;
  config.makes_progress = true;
  fake().reset(config);
  auto g = open(1, 1, [](net::fabric_config& c) { c.max_inject_wanted = 1000; });
  EXPECT_EQ(g->caps().max_rma, 100000u);
  EXPECT_EQ(g->caps().max_inject, 200u) << "the provider's limit, if more is wished";
  EXPECT_TRUE(g->caps().one_sided);
  EXPECT_TRUE(g->caps().write_with_immediate);
  EXPECT_FALSE(g->caps().device_memory);
}

// However much the provider copies, and a program asks for: a packet holds so much.
TEST_F(fabric_test, caps__no_more_is_injected_than_a_packet_holds) {
  test::fake_ofi_config config;
  config.inject = 16384;
  fake().reset(config);
  auto g = open(2, 1, [](net::fabric_config& c) { c.max_inject_wanted = 12000; });
  const std::size_t most = g->caps().max_inject;
  ASSERT_LE(most, g->caps().max_send);
  meet(*g, 0, 1);
  std::vector<std::byte> bytes = test::pattern(most, 1);
  for (const int to : {1, 0}) {
    g->at(to).seen().forget();
    g->post([&] {
      return g->at(0).to().send_inline(to, 5, bytes.data(), 8, bytes.data() + 8, most - 8);
    });
    ASSERT_TRUE(g->until([&] { return g->at(to).seen().arrived() == 1; }, "the message"));
    EXPECT_TRUE(g->at(to).seen().messages()[0].bytes == bytes) << "to rank " << to;
  }
}

TEST_F(fabric_test, caps__over_tcp_pieces_of_long_writes_are_best) {
  for (const auto& [provider, has_best] : {std::pair{"tcp", true}, std::pair{"psm3", false}}) {
    test::fake_ofi_config config;
    config.provider = provider;
    fake().reset(config);
    auto g = open(1);
    EXPECT_EQ(g->caps().best_rma == std::size_t{4} << 20, has_best) << provider;
    EXPECT_GT(g->caps().max_rma, std::size_t{4} << 20) << provider;
  }
}

TEST_F(fabric_test, caps__little_injection_is_made_up_for) {
  test::fake_ofi_config config;
  config.inject = 16;
  config.data_bytes = 4;
  fake().reset(config);
  auto g = open(2);
  EXPECT_EQ(g->caps().max_inject, 88u);
  meet(*g, 0, 1);
  std::vector<std::byte> bytes = test::pattern(88, 1);
  g->at(1).seen().forget();
  g->post([&] { return g->at(0).to().send_inline(1, 5, bytes.data(), 8, bytes.data() + 8, 80); });
  ASSERT_TRUE(g->until([&] { return g->at(1).seen().arrived() == 1; }, "the message"));
  EXPECT_TRUE(g->at(1).seen().messages()[0].bytes == bytes);
  EXPECT_EQ(fake().calls("fi_injectdata"), 0u) << "data is wider than what travels";
}

TEST_F(fabric_test, make_device__outside_the_range) {
  auto g = open(1);
  EXPECT_THROW(at(0).make_device(1024), backend_error);
  EXPECT_THROW(at(0).make_device(-1), backend_error);
}

// Keys that a provider binds to endpoints serve all devices.
TEST_F(fabric_test, make_device__of_a_high_number) {
  auto g = open(2);
  expect_a_message_over(*g, 1023);
}

TEST_F(fabric_test, endpoint_keys__serve_every_device) {
  test::fake_ofi_config config;
  config.mr_mode = FI_MR_ENDPOINT | FI_MR_PROV_KEY;
  fake().reset(config);
  auto g = open(2, 3);
  std::vector<std::byte> memory(1000);
  const net::remote_key key = g->at(1).expose(memory.data(), memory.size());
  EXPECT_EQ(fake().calls("fi_mr_bind"), fake().calls("fi_mr_enable"));
  g->learn(0, 1, key);
  for (int device = 0; device < 3; ++device) {
    auto source = test::pattern(100, static_cast<std::uint32_t>(device));
    test::op_fate fate;
    net::net_op op;
    op.rank = 1;
    op.buffer = source.data();
    op.size = source.size();
    op.remote = key;
    op.remote_offset = 100;
    op.context = &fate;
    g->post([&] { return g->at(0).to(device).put(op); });
    ASSERT_TRUE(g->until([&] { return fate.signals() == 1; }, "the put"));
    EXPECT_EQ(fate.completed, 1);
    EXPECT_EQ(std::memcmp(memory.data() + 100, source.data(), 100), 0);
  }
  g->at(1).hide(key);
}

}  // namespace lci::ofi
