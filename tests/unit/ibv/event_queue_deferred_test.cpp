// What comes behind a message that the sink cannot take yet.
#include "backends/ibv/event_queue.hpp"

#include <cstdint>

#include "tests/contract/waiting_sink.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

class deferred_on_a_card : public on_a_card {
 protected:
  // Rank 1 has sent so many messages, and a send of rank 0 completes behind them.
  void expect_the_completion_in_front(std::uint32_t messages, std::size_t at_first,
                                      const net::device_config& wanted = {}) {
    auto g = open(2, wanted);
    meet(*g, 0, 1);
    g->settle();
    for (std::uint32_t i = 0; i < messages; ++i)
      ASSERT_TRUE(until_alone(*g, 1, [&] { return send(*g, 1, 0, i) == errorcode_t::done; }));
    net::device& here = *g->at(0).devices[0];
    test::waiting_sink hears(here, at_first);
    net::net_op op;
    op.rank = 1;
    op.packet = g->at(0).packets.get();
    op.buffer = op.packet->payload();
    op.size = 5000;
    op.context = &hears;
    ASSERT_EQ(g->at(0).to().send(op), errorcode_t::posted);
    for (std::uint32_t i = 0; i < 100 + messages; ++i) here.poll(hears, 32);
    EXPECT_EQ(hears.completed, 1) << "it waits behind a message that waits for it";
    ASSERT_EQ(hears.taken.size(), messages);
    for (std::uint32_t i = 0; i < messages; ++i) EXPECT_EQ(hears.taken[i], i);
  }
};

}  // namespace

TEST_F(deferred_on_a_card, lets_completions_pass_that_came_with_it) {
  expect_the_completion_in_front(1, 0);
}

TEST_F(deferred_on_a_card, lets_completions_pass_that_are_not_read_yet) {
  expect_the_completion_in_front(33, 32);
}

// As many as there are receives, the first of which are free again.
TEST_F(deferred_on_a_card, lets_completions_pass_behind_all_that_can_wait) {
  net::device_config wanted;
  wanted.max_recvs = 200;
  expect_the_completion_in_front(200, 0, wanted);
  expect_the_completion_in_front(200, 7, wanted);
}

// Its connection would end before what has come over it was taken.
TEST_F(deferred_on_a_card, keeps_errors_behind_it) {
  auto g = open(2);
  meet(*g, 0, 1);
  g->settle();
  const std::size_t before = g->at(0).seen().arrived();
  ASSERT_EQ(send(*g, 1, 0), errorcode_t::done);
  bool may_take = false;
  g->at(0).seen().on_arrival = [&](const net::arrival&) {
    return may_take ? net::verdict::taken : net::verdict::deferred;
  };
  g->at(0).poll();
  card().kill(1);
  (void)send(*g, 0, 1);
  for (int i = 0; i < 100; ++i) g->at(0).devices[0]->poll(g->at(0).seen(), 32);
  EXPECT_EQ(g->at(0).seen().gone().size(), 0u);
  may_take = true;
  ASSERT_TRUE(until_alone(*g, 0, [&] { return !g->at(0).seen().gone().empty(); }));
  EXPECT_EQ(g->at(0).seen().gone()[0].messages_before, before + 1);
}

}  // namespace lci::ibv
