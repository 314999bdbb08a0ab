// Receives for which only a rank could have sent that has died: they leave their engine, and
// whoever waits for them hears of it. All others stay.
#include <gtest/gtest.h>

#include "lci/comp/sync.hpp"
#include "lci/library_comp.hpp"
#include "tests/support/in_thread.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/unit/proto/second_devices.hpp"

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
  EXPECT_EQ(w_[0].queues->host.open_receives.sum(), 4);
  let_die(2);
  EXPECT_EQ(exact.done.lost(), 2);
  EXPECT_EQ(any_tag.done.lost(), 2);
  EXPECT_EQ(of_living.done.lost(), signalled::NOBODY);
  EXPECT_EQ(of_any.done.lost(), signalled::NOBODY);
  EXPECT_EQ(w_[0].queues->host.open_receives.sum(), 2);
  send(1, 0, 5);
  send(1, 0, 6);
  w_.step(20);
  EXPECT_TRUE(of_living.done.test(nullptr));
  EXPECT_TRUE(of_any.done.test(nullptr));
  EXPECT_TRUE(w_[0].queues->is_drained());
}

// Everything that it had sent is in.
TEST_F(receives_gone, from_who_took_leave__end_as_well) {
  waiting_receive one;
  ASSERT_EQ(one.post(w_[0], 2), errorcode_t::posted);
  w_[2].fabric->leave();
  w_.step(50);
  ASSERT_TRUE(w_[0].core.peers.has_ended(2));
  EXPECT_EQ(one.done.lost(), 2);
  EXPECT_TRUE(w_[0].queues->is_drained());
}

// One of the library may free what was given to it, which looks for its numbers.
class frees_others final : public lci::detail::library_comp_t {
 public:
  explicit frees_others(lci::proto::core& core) : core_(core) {}
  void signal(lci::status_t) override {}
  void lose() noexcept override {
    core_.rcomps.bury(*this);
    ++lost;
  }
  int lost = 0;

 private:
  lci::proto::core& core_;
};

class receives_of_the_library : public receives_gone {
 protected:
  void SetUp() override {
    receives_gone::SetUp();
    w_[0].core.rcomps.add(&numbered_);
    lci::status_t got;
    ASSERT_EQ(w_[0].receive(2, into_.data(), into_.size(), 5, &waits_, got), errorcode_t::posted);
  }
  signalled numbered_{lci::comp_attr_t{}};
  frees_others waits_{w_[0].core};
  std::vector<std::byte> into_ = std::vector<std::byte>(16);
};

TEST_F(receives_of_the_library, from_the_dead__end_under_no_lock) {
  let_die(2);
  EXPECT_EQ(waits_.lost, 1);
}

TEST_F(receives_of_the_library, from_who_took_leave__end_under_no_lock) {
  w_[2].fabric->leave();
  w_.step(50);
  EXPECT_EQ(waits_.lost, 1);
}

// Nobody can answer what the dead had announced. What had come whole is received.
TEST_F(receives_gone, from_any__meet_the_living_and_not_what_the_ended_had_announced) {
  for (const bool is_orderly : {false, true}) {
    proto_world w(card_options(), 3);
    const auto send = [&](int from, std::size_t size, lci::tag_t tag, errorcode_t expected) {
      auto out = w[from].outgoing(0, data_.data(), size, w[from].engine_rcomp(), tag);
      ASSERT_EQ(lci::proto::start_message(out), expected);
      w.step(20);
    };
    send(2, LARGE, 5, errorcode_t::posted);
    send(2, 8, 6, errorcode_t::done);
    ASSERT_EQ(w[0].matcher->engine().size(), 2u);
    if (is_orderly)
      w[2].fabric->leave();
    else
      w.sim.kill(2);
    w.step(50);
    ASSERT_TRUE(w[0].core.peers.has_ended(2));
    EXPECT_EQ(w[0].matcher->engine().size(), 1u);
    waiting_receive announced, whole;
    EXPECT_EQ(whole.post(w[0], lci::ANY_SOURCE, 6), errorcode_t::done);
    EXPECT_EQ(announced.post(w[0], lci::ANY_SOURCE, 5), errorcode_t::posted);
    EXPECT_EQ(w[0].queues->host.open_receives.sum(), 1);
    send(1, 8, 5, errorcode_t::done);
    EXPECT_TRUE(announced.done.test(nullptr));
    EXPECT_TRUE(w[0].queues->is_drained());
  }
}

// It comes behind the end, which another device has read.
TEST_F(receives_gone, from_any__do_not_meet_what_the_dead_announce_late) {
  waiting_receive one;
  ASSERT_EQ(one.post(w_[0], lci::ANY_SOURCE), errorcode_t::posted);
  let_die(2);
  lci::proto::wire::rts request;
  request.sender = {0, 1};
  request.size = 16;
  request.tag = 5;
  EXPECT_EQ(w_[0].matcher->on_rts(w_[0].queues->host, 2, request, lci::matching_policy_t::rank_tag),
            lci::net::verdict::taken);
  EXPECT_EQ(w_[0].queues->host.open_receives.sum(), 1);
  EXPECT_EQ(w_[0].matcher->engine().size(), 1u) << "the receive";
  send(1, 0, 5);
  w_.step(20);
  EXPECT_TRUE(one.done.test(nullptr));
}

// The check of the post was before the death.
TEST_F(receives_gone, posted_after_the_look__end_as_well) {
  let_die(2);
  waiting_receive late;
  EXPECT_EQ(late.post(w_[0], 2), errorcode_t::posted);
  EXPECT_EQ(late.done.lost(), 2);
  EXPECT_TRUE(w_[0].queues->is_drained());
}

TEST_F(receives_gone, filed_while_somebody_looks__end_once) {
  if (!has_race_points) GTEST_SKIP() << RACE_POINTS_MISSING;
  waiting_receive mine;
  race_hook hook(
      "matcher.post.after_filing", [&] { in_thread([&] { let_die(2); }); }, 1);
  EXPECT_EQ(mine.post(w_[0], 2), errorcode_t::posted);
  ASSERT_EQ(hook.hits(), 1);
  EXPECT_EQ(mine.done.lost(), 2);
  EXPECT_EQ(w_[0].queues->host.open_receives.sum(), 0);
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
  w[0].matcher->empty_st(w[0].shared.host);
  EXPECT_EQ(w[0].queues->host.open_receives.sum(), 0);
  EXPECT_EQ(w[0].matcher->engine().size(), 0u);
  EXPECT_EQ(w[0].pool.outstanding(), 0u);
}

class device_gone : public testing::Test {
 protected:
  void start(sim_packets how) {
    second_.reset();  // it lives in the world
    w_ = std::make_unique<proto_world>(sim_options{.packets = how});
    second_ = std::make_unique<second_devices>(*w_);
  }
  lci::proto::matcher& matcher() { return *(*w_)[0].matcher; }
  // The message of that tag and size has come by the device that is gone, and is received here.
  void expect_received(std::size_t size, lci::tag_t tag) {
    waiting_receive one;
    one.buffer.resize(size);
    EXPECT_EQ(one.post((*w_)[0], 1, tag), errorcode_t::done);
    EXPECT_EQ(one.buffer, std::vector<std::byte>(data_.begin(), data_.begin() + size));
  }

  std::vector<std::byte> data_ = pattern(LARGE);
  std::unique_ptr<proto_world> w_;
  std::unique_ptr<second_devices> second_;
};

TEST_F(device_gone, its_receives__leave_without_a_word_and_the_others_stay) {
  start(sim_packets::lend);
  node& me = (*w_)[0];
  waiting_receive of_it, of_other;
  lci::proto::receive& record = *me.shared.host.receives.get();
  record.user.comp = &of_it.done;
  record.user.status = lci::status_t();
  record.user.status.buffer = of_it.buffer.data();
  record.user.status.size = of_it.buffer.size();
  record.host = &(*second_)[0].host;
  lci::status_t got;
  ASSERT_EQ(matcher().post(record, 1, 5, lci::matching_policy_t::rank_tag, got),
            errorcode_t::posted);
  ASSERT_EQ(of_other.post(me, 1), errorcode_t::posted);
  EXPECT_EQ(lci::proto::end_receives(matcher().part_with((*second_)[0].host), false), 1u);
  EXPECT_TRUE((*second_)[0].is_drained());
  second_->end(0);
  EXPECT_EQ(me.queues->host.open_receives.sum(), 1);
  auto out = (*w_)[1].outgoing(0, data_.data(), 16, (*w_)[1].engine_rcomp(), 5);
  ASSERT_EQ(lci::proto::start_message(out), errorcode_t::done);
  w_->step(20);
  EXPECT_TRUE(of_other.done.test(nullptr));
  EXPECT_FALSE(of_it.done.test(nullptr));
  EXPECT_EQ(of_it.done.lost(), signalled::NOBODY);
  EXPECT_EQ(of_it.buffer, std::vector<std::byte>(16));
}

TEST_F(device_gone, what_is_here_whole__is_received_through_another) {
  for (const auto how : {sim_packets::lend, sim_packets::own, sim_packets::none}) {
    start(how);
    for (const std::size_t size : {8, 100, 4096})
      ASSERT_EQ(second_->send(*w_, data_, size, static_cast<lci::tag_t>(size)), errorcode_t::done);
    second_->step();
    EXPECT_EQ(lci::proto::end_receives(matcher().part_with((*second_)[0].host), false), 0u);
    second_->end(0);
    ASSERT_EQ(matcher().engine().size(), 3u);
    for (const std::size_t size : {4096, 100, 8})
      expect_received(size, static_cast<lci::tag_t>(size));
    EXPECT_EQ((*w_)[0].pool.outstanding(), 0u);
  }
}

// Nobody else could ask the sender for its bytes.
TEST_F(device_gone, what_was_only_announced__goes_with_it) {
  start(sim_packets::lend);
  ASSERT_EQ(second_->send(*w_, data_, LARGE, 3), errorcode_t::posted);
  second_->step();
  ASSERT_EQ(matcher().engine().size(), 1u);
  EXPECT_EQ(lci::proto::end_receives(matcher().part_with((*w_)[0].queues->host), false), 0u);
  EXPECT_EQ(matcher().engine().size(), 1u) << "that was another device";
  lci::proto::end_receives(matcher().part_with((*second_)[0].host), false);
  EXPECT_EQ(matcher().engine().size(), 0u);
}

TEST_F(device_gone, then_its_pool__what_lies_there_goes_with_it) {
  start(sim_packets::none);
  for (const std::size_t size : {8, 4096})
    ASSERT_EQ(second_->send(*w_, data_, size, static_cast<lci::tag_t>(size)), errorcode_t::done);
  second_->step();
  lci::proto::end_receives(matcher().part_with((*second_)[0].host), false);
  second_->end(0);
  ASSERT_EQ((*w_)[0].pool.outstanding(), 1u);
  lci::mem::packet_pool other((*w_)[0].core.arena, 8192, 4);
  matcher().part_with((*w_)[0].shared.host, other);
  EXPECT_EQ(matcher().engine().size(), 2u);
  matcher().part_with((*w_)[0].shared.host, (*w_)[0].pool);
  EXPECT_EQ(matcher().engine().size(), 1u);
  EXPECT_EQ((*w_)[0].pool.outstanding(), 0u);
  expect_received(8, 8);
}

TEST_F(device_gone, then_its_network__what_a_peer_has_lent_goes_back) {
  start(sim_packets::lend);
  for (const std::size_t size : {8, 4096})
    ASSERT_EQ(second_->send(*w_, data_, size, static_cast<lci::tag_t>(size)), errorcode_t::done);
  second_->step();
  node& me = (*w_)[0];
  matcher().part_with(me.shared.host, *me.fabric);
  EXPECT_EQ(matcher().engine().size(), 2u) << "the device is still there";
  lci::proto::end_receives(matcher().part_with((*second_)[0].host), false);
  second_->end(0);
  matcher().part_with(me.shared.host, *(*w_)[1].fabric);
  EXPECT_EQ(matcher().engine().size(), 2u) << "that was another network";
  matcher().part_with(me.shared.host, *me.fabric);
  EXPECT_EQ(matcher().engine().size(), 1u);
  (*w_)[1].pool.reclaim();
  EXPECT_EQ((*w_)[1].pool.outstanding(), 0u);
  expect_received(8, 8);
}

}  // namespace
