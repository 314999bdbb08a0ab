// Receives for which only a rank could have sent that has died: they leave their engine, and
// whoever waits for them hears of it. All others stay.
#include <gtest/gtest.h>

#include "lci/comp/sync.hpp"
#include "tests/support/in_thread.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/unit/proto/world.hpp"

namespace {

using namespace lci::test;
using lci::errorcode_t;
using signalled = lci::comp::sync;

struct waiting_receive {
  signalled done{lci::comp_attr_t{}};
  std::vector<std::byte> buffer = std::vector<std::byte>(16);

  errorcode_t post(node& at, int from, lci::tag_t tag = 5) {
    lci::status_t got;
    return at.receive(from, buffer.data(), buffer.size(), tag, &done, got);
  }
};

class receives_gone : public testing::Test {
 protected:
  // The last one is met by the others, so that they notice its death.
  void SetUp() override {
    for (const int r : {0, 1}) send(r, 2, 99);
    w_.step(20);
  }
  void send(int from, int to, lci::tag_t tag) {
    auto out = w_[from].outgoing(to, data_.data(), 8, w_[from].engine_rcomp(), tag);
    ASSERT_EQ(lci::proto::start_message(out), errorcode_t::done);
  }
  void let_die(int rank) {
    w_.sim.kill(rank);
    w_.step(50);
  }

  proto_world w_{card_options(), 3};
  std::vector<std::byte> data_ = pattern(LARGE);
};

TEST_F(receives_gone, from_the_dead__end_and_their_objects_say_so) {
  waiting_receive exact, of_living, of_any, any_tag;
  ASSERT_EQ(exact.post(w_[0], 2), errorcode_t::posted);
  ASSERT_EQ(of_living.post(w_[0], 1), errorcode_t::posted);
  ASSERT_EQ(of_any.post(w_[0], lci::ANY_SOURCE, 6), errorcode_t::posted);
  ASSERT_EQ(any_tag.post(w_[0], 2, lci::ANY_TAG), errorcode_t::posted);
  EXPECT_EQ(w_[0].channel->open_receives.sum(), 4);
  let_die(2);
  EXPECT_EQ(exact.done.lost(), 2);
  EXPECT_EQ(any_tag.done.lost(), 2);
  EXPECT_EQ(of_living.done.lost(), signalled::NOBODY);
  EXPECT_EQ(of_any.done.lost(), signalled::NOBODY);
  EXPECT_EQ(w_[0].channel->open_receives.sum(), 2);
  send(1, 0, 5);
  send(1, 0, 6);
  w_.step(20);
  EXPECT_TRUE(of_living.done.test(nullptr));
  EXPECT_TRUE(of_any.done.test(nullptr));
  EXPECT_TRUE(w_[0].channel->is_drained());
}

// What it has sent before may still be on its way to another device.
TEST_F(receives_gone, from_who_took_leave__stay) {
  waiting_receive one;
  ASSERT_EQ(one.post(w_[0], 2), errorcode_t::posted);
  w_[2].fabric->leave();
  w_.step(50);
  ASSERT_TRUE(w_[0].core.is_gone(2));
  EXPECT_EQ(one.done.lost(), signalled::NOBODY);
  EXPECT_EQ(w_[0].channel->open_receives.sum(), 1);
}

// The check of the post was before the death.
TEST_F(receives_gone, posted_after_the_look__end_as_well) {
  let_die(2);
  waiting_receive late;
  EXPECT_EQ(late.post(w_[0], 2), errorcode_t::posted);
  EXPECT_EQ(late.done.lost(), 2);
  EXPECT_TRUE(w_[0].channel->is_drained());
}

TEST_F(receives_gone, filed_while_somebody_looks__end_once) {
  if (!has_race_points) GTEST_SKIP() << RACE_POINTS_MISSING;
  waiting_receive mine;
  race_hook hook(
      "matcher.post.after_filing", [&] { in_thread([&] { let_die(2); }); }, 1);
  EXPECT_EQ(mine.post(w_[0], 2), errorcode_t::posted);
  ASSERT_EQ(hook.hits(), 1);
  EXPECT_EQ(mine.done.lost(), 2);
  EXPECT_EQ(w_[0].channel->open_receives.sum(), 0);
}

TEST_F(receives_gone, a_large_send_to_the_dead__its_object_says_so) {
  signalled done{lci::comp_attr_t{}};
  auto out = w_[0].outgoing(2, data_.data(), data_.size(), w_[2].engine_rcomp(), 7, &done);
  ASSERT_EQ(lci::proto::start_message(out), errorcode_t::posted);
  let_die(2);
  EXPECT_EQ(done.lost(), 2);
}

// Of an engine that the program frees.
TEST(receives_of_an_engine, that_is_freed__go_with_what_nobody_received) {
  proto_world w({.packets = sim_packets::none});
  std::vector<std::byte> data = pattern(4096);  // waits in a packet
  waiting_receive one;
  ASSERT_EQ(one.post(w[0], 1), errorcode_t::posted);
  for (int i = 0; i < 20; ++i) {
    auto out = w[1].outgoing(0, data.data(), data.size(), w[1].engine_rcomp(), 8);
    ASSERT_EQ(lci::proto::start_message(out), errorcode_t::done);
    w.step(5);
  }
  ASSERT_EQ(w[0].pool.outstanding(), 20u);
  w[0].matcher->empty_st(w[0].core, [](const lci::proto::channel&) { return true; });
  EXPECT_EQ(w[0].channel->open_receives.sum(), 0);
  EXPECT_EQ(w[0].matcher->engine().size(), 0u);
  EXPECT_EQ(w[0].pool.outstanding(), 0u);
}

}  // namespace
