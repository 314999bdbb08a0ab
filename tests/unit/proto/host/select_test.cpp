// Which protocol carries a message.
#include "lci/proto/host/select.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/proto/world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;

TEST(select, order_of_records__is_the_documented_one) {
  const auto records = proto::message_protocols();
  ASSERT_EQ(records.size(), 4u);
  EXPECT_STREQ(records[0]->name, "inject");
  EXPECT_STREQ(records[1]->name, "bcopy");
  EXPECT_STREQ(records[2]->name, "zero_copy");
  EXPECT_STREQ(records[3]->name, "rendezvous");
}

TEST(select, thresholds__follow_the_limits) {
  sim_options options;
  options.caps.max_send = 65536;
  proto_world w(options);
  std::byte byte{};
  auto named = [&](std::size_t size, auto&& change) {
    auto out = w[0].outgoing(1, &byte, size, 9, 0);
    change(out);
    return std::string(proto::select_message(out).name);
  };
  const auto as_is = [](proto::outgoing&) {};
  EXPECT_EQ(named(64, as_is), "inject");
  EXPECT_EQ(named(65, as_is), "bcopy");
  EXPECT_EQ(named(8192, as_is), "bcopy");
  EXPECT_EQ(named(8193, as_is), "rendezvous");
  EXPECT_EQ(named(8192, [](proto::outgoing& o) { o.extended = true; }), "bcopy");
  EXPECT_EQ(named(8193, [](proto::outgoing& o) { o.extended = true; }), "rendezvous");
  EXPECT_EQ(named(8, [](proto::outgoing& o) { o.wants_network = true; }), "bcopy");
  EXPECT_EQ(named(65, [](proto::outgoing& o) { o.has_mr = true; }), "zero_copy");
  EXPECT_EQ(named(64, [](proto::outgoing& o) { o.has_mr = true; }), "inject");
  // With its head it has to fit what the network takes.
  EXPECT_EQ(named(52, [](proto::outgoing& o) { o.extended = true; }), "inject");
  EXPECT_EQ(named(53, [](proto::outgoing& o) { o.extended = true; }), "bcopy");
}

TEST(select, packets__are_filled_as_far_as_the_network_goes) {
  sim_options options;
  options.caps.max_send = 8150;
  proto_world w(options);
  std::byte byte{};
  const auto name_for = [&](std::size_t size) {
    return std::string(proto::select_message(w[0].outgoing(1, &byte, size, 9, 0)).name);
  };
  // Whole lines, and room for the longest head.
  EXPECT_EQ(name_for(8128), "bcopy");
  EXPECT_EQ(name_for(8129), "rendezvous");
}
