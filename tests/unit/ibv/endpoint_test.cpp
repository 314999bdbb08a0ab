// What a post registers by itself, and when it need not.
#include "backends/ibv/endpoint.hpp"

#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

// Rank 0 knows 4096 bytes of rank 1; its own buffer is not registered, and no test helper does it.
class endpoint_test : public on_a_card {
 protected:
  void open_with(const net::device_config& wanted) {
    ranks = open(2, wanted);
    meet(*ranks, 0, 1);
    key = ranks->at(1).expose(there.data(), there.size());
    ranks->learn(0, 1, key);
    to = ranks->at(0).devices[0]->make_endpoint();
    card().forget_counts();
  }
  errorcode_t put(std::size_t size, void* context = nullptr) {
    net::net_op op;
    op.rank = 1;
    op.buffer = here.data();
    op.size = size;
    op.remote = key;
    op.context = context;
    return to->put(op);
  }
  static std::size_t registered() {
    return card().count("ibv_reg_mr") + card().count("ibv_reg_mr_iova2");
  }
  void TearDown() override {
    ranks->settle();
    ranks->at(1).hide(key);
    to.reset();
    ranks.reset();
  }

  std::vector<std::byte> there = std::vector<std::byte>(4096), here = test::pattern(4096, 3);
  std::unique_ptr<test::group> ranks;
  std::unique_ptr<net::endpoint> to;
  net::remote_key key;
};

TEST_F(endpoint_test, put__that_fits_inline_registers_nothing) {
  open_with({});
  const std::size_t most = at(0).caps().max_inject;
  EXPECT_EQ(put(most), errorcode_t::posted);
  EXPECT_EQ(registered(), 0u);
  EXPECT_TRUE(
      std::equal(here.begin(), here.begin() + static_cast<std::ptrdiff_t>(most), there.begin()));
  EXPECT_EQ(put(most + 1), errorcode_t::posted);
  EXPECT_EQ(registered(), 1u);
}

TEST_F(endpoint_test, put__that_finds_no_room_registers_nothing) {
  open_with({.max_sends = 16});
  while (put(1) == errorcode_t::posted) {
  }
  for (int i = 0; i < 10; ++i) EXPECT_EQ(put(4096), errorcode_t::retry_nomem);
  EXPECT_EQ(registered(), 0u);
}

// net_send_reserved_pct: users leave that share of the send queue to the protocols.
TEST_F(endpoint_test, send_inline__leaves_the_reserve_to_control_endpoints) {
  for (const auto& [reserve, users] : {std::pair{0.25, 48}, {0.5, 32}, {0.0, 60}, {0.99, 1}}) {
    open_with({.max_sends = 64, .send_reserve = reserve});
    const auto control = ranks->at(0).devices[0]->make_control_endpoint();
    const auto sent_by = [](net::endpoint& end) {
      int count = 0;
      while (end.send_inline(1, 7, nullptr, 0, nullptr, 0) == errorcode_t::done) ++count;
      return count;
    };
    // The message by which they met keeps its place until a later one is reported.
    const int kept = users > 1 ? 1 : 0;
    EXPECT_EQ(sent_by(*to), users - kept);
    EXPECT_EQ(sent_by(*control), 60 - users);
  }
}

TEST_F(endpoint_test, put__refused_by_the_card_keeps_no_registration) {
  open_with({});
  const std::size_t before = card().live().mrs;
  card().fail_nth("post_send", 1, ENOMEM);
  EXPECT_EQ(put(4096), errorcode_t::retry_nomem);
  EXPECT_EQ(registered(), 1u);
  EXPECT_EQ(card().live().mrs, before);
}

// Its copy is sent, and nobody else gives the packet back.
TEST_F(endpoint_test, send__of_a_packet_that_cannot_be_registered_gives_it_back) {
  open_with({});
  mem::packet_pool& packets = ranks->at(0).packets;
  // So that the packets do not lie in a span that is registered already.
  const mem::arena_block between(ranks->at(0).arena, mem::arena::SPAN, 4096);
  card().fail_nth("ibv_reg_mr", 1, ENOMEM);
  net::net_op op;
  op.rank = 1;
  op.packet = packets.get();
  ASSERT_NE(op.packet, nullptr);
  op.buffer = op.packet->payload();
  op.size = 5000;
  const std::size_t before = ranks->at(1).seen().arrived();
  EXPECT_EQ(to->send(op), errorcode_t::done) << "a copy";
  EXPECT_EQ(packets.outstanding(), 0u);
  ASSERT_TRUE(ranks->until([&] { return ranks->at(1).seen().arrived() > before; }, "the message"));
}

}  // namespace
}  // namespace lci::ibv
