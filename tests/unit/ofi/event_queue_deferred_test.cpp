// What comes behind a message that the sink cannot take yet.
#include "backends/ofi/event_queue.hpp"

#include <cstdint>

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

}  // namespace lci::ofi
