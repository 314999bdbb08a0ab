// A peer goes while a state for it is being made: whoever makes it and whoever looks for what the
// peer leaves behind must not both end it, nor neither of them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "lci/proto/host/arrival.hpp"
#include "lci/proto/host/rendezvous.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/unit/proto/second_devices.hpp"

namespace {

using namespace lci::test;

// Progress in a thread of its own, which goes on when it has noticed that the peer is gone, or
// waits for us to end.
std::thread notice_elsewhere(node& survivor, int victim) {
  auto is_over = std::make_shared<std::atomic<bool>>(false);
  std::thread out([&survivor, is_over, victim] {
    for (int left = 50, all = 100'000; left > 0 && all > 0; --all) {
      if (survivor.core.peers.has_ended(victim)) --left;
      try {
        survivor.queues->progress();
      } catch (const lci::peer_failure_error&) {
      }
    }
    *is_over = true;
  });
  for (int i = 0; i < 200 && !*is_over; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return out;
}

TEST(rendezvous_gone, while_the_request_goes_out__it_ends_once) {
  if (!has_race_points) GTEST_SKIP() << RACE_POINTS_MISSING;
  proto_world w(card_options());
  auto data = pattern(LARGE);
  recorder sender;
  auto first = w[0].outgoing(1, data.data(), 8, w[1].engine_rcomp(), 4);
  ASSERT_EQ(lci::proto::start_message(first), lci::errorcode_t::done);
  w.step(20);  // they have met, so that the death is noticed
  std::thread other;
  race_hook hook(
      "rendezvous.start_as_sender.before_request",
      [&] {
        w.sim.kill(1);
        other = notice_elsewhere(w[0], 1);
      },
      1);
  auto out = w[0].outgoing(1, data.data(), data.size(), w[1].engine_rcomp(), 5, &sender);
  EXPECT_EQ(lci::proto::start_message(out), lci::errorcode_t::fatal);
  ASSERT_EQ(hook.hits(), 1);
  other.join();
  w.step(50);
  EXPECT_TRUE(sender.seen.empty());
  EXPECT_EQ(w[0].queues->host.rendezvous.sends.size(), 0u);
  EXPECT_EQ(w[0].queues->engine().open.sum(), 0);
  EXPECT_EQ(w.sim.registrations(0), 0u);
}

// Whoever polls ends a message while another thread notices that the peer is gone: one of them ends
// it, and the other one leaves it alone.
TEST(rendezvous_gone, while_a_message_ends__it_ends_once) {
  if (!has_race_points) GTEST_SKIP() << RACE_POINTS_MISSING;
  for (const int survivor : {0, 1}) {
    proto_world w(card_options());
    const auto data = pattern(LARGE);
    std::vector<std::byte> source = data, buffer(LARGE);
    recorder sender, receiver;
    lci::status_t got;
    ASSERT_EQ(w[1].receive(0, buffer.data(), buffer.size(), 5, &receiver, got),
              lci::errorcode_t::posted);
    auto out = w[0].outgoing(1, source.data(), source.size(), w[1].engine_rcomp(), 5, &sender);
    ASSERT_EQ(lci::proto::start_message(out), lci::errorcode_t::posted);
    auto& states = w[survivor].queues->host.rendezvous;
    const auto is_ending = [&] {
      const auto* const mine = states.sends.find(states.sends.name_at(0));
      const auto* const theirs = states.recvs.find(states.recvs.name_at(0));
      return survivor == 0 ? mine != nullptr && mine->state == lci::proto::send_state::finished
                           : theirs != nullptr && theirs->state == lci::proto::recv_state::finished;
    };
    int noticed = 0;
    race_hook hook("rendezvous.move.before_action", [&] {
      if (noticed != 0 || !is_ending()) return;
      ++noticed;
      w[survivor].core.peers.report(1 - survivor, lci::net::peer_event::fail, "the test says so");
      std::thread([&] {
        for (int i = 0; i < 10; ++i) {
          try {
            w[survivor].queues->progress();
          } catch (const lci::peer_failure_error&) {
          }
        }
      }).join();
    });
    for (int i = 0; i < 50; ++i) {
      try {
        w.step(1);
      } catch (const lci::peer_failure_error&) {
      }
    }
    EXPECT_EQ(noticed, 1) << "of rank " << survivor;
    EXPECT_EQ((survivor == 0 ? sender : receiver).seen.size(), 1u);
    EXPECT_EQ(buffer, data);
    EXPECT_EQ(states.sends.size() + states.recvs.size(), 0u);
    EXPECT_EQ(
        w[survivor].queues->engine().open.sum() + w[survivor].queues->host.open_receives.sum(), 0);
  }
}

// The request of a peer that is gone since has waited for a receive.
TEST(rendezvous_gone, before_its_message_is_received__the_receive_ends) {
  proto_world w(card_options());
  auto data = pattern(LARGE);
  std::vector<std::byte> buffer(LARGE);
  recorder sender, receiver;
  auto out = w[0].outgoing(1, data.data(), data.size(), w[1].engine_rcomp(), 5, &sender);
  ASSERT_EQ(lci::proto::start_message(out), lci::errorcode_t::posted);
  w.step(20);
  w.sim.kill(0);
  w.step(20);
  ASSERT_TRUE(w[1].core.peers.has_ended(0));
  lci::status_t got;
  EXPECT_EQ(w[1].receive(0, buffer.data(), buffer.size(), 5, &receiver, got),
            lci::errorcode_t::posted);
  w.step(20);
  EXPECT_EQ(w[1].queues->host.rendezvous.recvs.size(), 0u);
  EXPECT_EQ(w[1].queues->host.open_receives.sum(), 0);
  EXPECT_TRUE(receiver.seen.empty()) << "objects of what failed are not signalled";
  EXPECT_EQ(w.sim.registrations(1), 0u);
}

// Rank 1 sends a large message to rank 0 over the second devices, and takes leave. The first device
// of rank 0 hears of that before the second one has read what was sent there.
class leave_heard_elsewhere : public testing::Test {
 protected:
  // The receive has met its message.
  void SetUp() override {
    ASSERT_EQ(w_[0].receive(1, buffer_.data(), buffer_.size(), 5, &receiver_, got_),
              lci::errorcode_t::posted);
    ASSERT_EQ(second_.send(w_, data_, LARGE, 5, &sender_), lci::errorcode_t::posted);
    for (int i = 0; i < 20 && here().host.rendezvous.recvs.size() == 0; ++i) second_.step(0);
    ASSERT_EQ(here().host.rendezvous.recvs.size(), 1u);
  }
  lci::proto::device_queues& here() { return second_[0]; }
  void hear(lci::proto::device_queues& device, bool orderly = true) {
    lci::proto::single_arrival(device.host).on_peer_ended(1, orderly, "it has gone");
  }
  // Looks for ranks that have ended, and reads nothing before.
  void look() { here().engine().watch.look_for_ended(); }
  std::int64_t open() { return w_[0].queues->host.open_receives.sum(); }

  proto_world w_{{.packets = sim_packets::lend}};
  second_devices second_{w_};
  std::vector<std::byte> data_ = pattern(LARGE), buffer_ = std::vector<std::byte>(LARGE);
  recorder sender_, receiver_;
  lci::status_t got_;
};

TEST_F(leave_heard_elsewhere, a_receive_whose_bytes_are_there__completes) {
  for (int i = 0; i < 50 && sender_.seen.empty(); ++i) second_.step(1);
  ASSERT_EQ(sender_.seen.size(), 1u);
  hear(*w_[0].queues);
  w_[0].queues->progress();
  look();
  EXPECT_EQ(open(), 1) << "its bytes may be there";
  for (int i = 0; i < 5; ++i) second_.step(0);
  EXPECT_EQ(receiver_.seen.size(), 1u);
  EXPECT_EQ(buffer_, data_);
  EXPECT_EQ(open(), 0);
  hear(here());
  look();
  EXPECT_EQ(w_[0].queues->engine().errors.lost.count(), 0u);
}

TEST_F(leave_heard_elsewhere, a_receive_without_its_bytes__ends_when_all_is_in) {
  hear(*w_[0].queues);
  w_[0].queues->progress();
  look();
  EXPECT_EQ(open(), 1);
  hear(here());
  look();
  EXPECT_EQ(open(), 0);
  EXPECT_EQ(here().host.rendezvous.recvs.size(), 0u);
  EXPECT_TRUE(receiver_.seen.empty());
  EXPECT_EQ(here().engine().errors.lost.count(), 1u) << "it was still needed";
}

TEST_F(leave_heard_elsewhere, and_then_it_dies__a_receive_ends_at_once) {
  hear(*w_[0].queues);
  look();
  EXPECT_EQ(open(), 1);
  hear(*w_[0].queues, false);
  look();
  EXPECT_EQ(open(), 0);
  EXPECT_TRUE(receiver_.seen.empty());
}

}  // namespace
