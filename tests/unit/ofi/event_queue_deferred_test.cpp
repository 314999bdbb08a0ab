// What comes behind a message that the sink cannot take yet.
#include "backends/ofi/event_queue.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/contract/waiting_sink.hpp"
#include "tests/unit/ofi/world.hpp"

namespace lci::ofi {
namespace {

class deferred_message : public on_a_network {
 protected:
  // Rank 1 has sent so many messages, and a send of rank 0 completes behind them.
  void expect_the_completion_in_front(std::uint32_t messages, std::size_t at_first) {
    test::fake_ofi_config config;
    config.completes_early = false;
    fake().reset(config);
    auto g = open(2);
    meet(*g, 0, 1);
    g->settle();
    for (std::uint32_t i = 0; i < messages; ++i) ASSERT_EQ(send(*g, 1, 0, i), errorcode_t::done);
    net::device& here = *g->at(0).devices[0];
    test::waiting_sink hears(here, at_first);
    net::net_op op;
    op.rank = 1;
    op.packet = g->at(0).packets.get();
    op.buffer = op.packet->payload();
    op.size = 5000;
    op.context = &hears;
    ASSERT_EQ(g->at(0).to().send(op), errorcode_t::posted);
    here.poll(hears, 32);
    EXPECT_EQ(hears.completed, 0);
    EXPECT_EQ(hears.taken.size(), at_first);
    g->at(1).poll();
    for (int i = 0; i < 100; ++i) here.poll(hears, 32);
    EXPECT_EQ(hears.completed, 1) << "it waits behind a message that waits for it";
    ASSERT_EQ(hears.taken.size(), messages);
    for (std::uint32_t i = 0; i < messages; ++i) EXPECT_EQ(hears.taken[i], i);
    // By who leaves, where a message is out when it is received.
    fake().cut("fake://", FI_ECONNRESET);
  }
};

}  // namespace

TEST_F(deferred_message, lets_completions_pass_that_are_not_read_yet) {
  expect_the_completion_in_front(1, 0);
}

// The last message is read together with the completion.
TEST_F(deferred_message, lets_completions_pass_that_came_with_it) {
  expect_the_completion_in_front(33, 32);
}

TEST_F(deferred_message, lets_completions_pass_behind_many_others) {
  expect_the_completion_in_front(200, 0);
}

// The program may take the message only once it knows the other's memory.
TEST_F(deferred_message, lets_keys_pass) {
  fake().reset(test::fake_ofi_config());
  auto g = open(2);
  meet(*g, 0, 1);
  g->settle();
  std::vector<std::byte> there(64);
  const net::remote_key key = g->at(1).expose(there.data(), there.size());
  ASSERT_EQ(send(*g, 1, 0, 5), errorcode_t::done);
  int looks = 0, taken = 0;
  bool may_take = false;
  g->at(0).seen().on_arrival = [&](const net::arrival&) {
    if (!may_take) {
      ++looks;
      return net::verdict::deferred;
    }
    ++taken;
    return net::verdict::taken;
  };
  const auto is_known = [&] {
    return g->at(0).fabric->check_remote(1, key).what == net::remote_view::answer::ok;
  };
  bool is_found = false;
  for (int i = 0; i < 1000 && !is_found; ++i) {
    is_found = is_known();
    g->at(0).poll();
    g->at(1).poll();
  }
  EXPECT_TRUE(is_found) << "the answer waits behind a message";
  EXPECT_GT(looks, 1);
  may_take = true;
  for (int i = 0; i < 100; ++i) g->at(0).poll();
  EXPECT_EQ(taken, 1);
}

}  // namespace lci::ofi
