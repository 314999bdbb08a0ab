#include "backends/shm/packets_in.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/shm/shared_device.hpp"

namespace lci::shm {
namespace {

using test::pair;

// Ranks that sent packets, and how many of these the receiver still has.
struct sent_packets : testing::Test {
  void SetUp() override { p.meet(); }
  void send(std::size_t messages) {
    for (std::size_t i = 0; i < messages; ++i) {
      mem::packet* const packet = p.a.pool.get();
      ASSERT_NE(packet, nullptr);
      net::net_op op;
      op.rank = 1;
      op.buffer = packet->payload();
      op.size = SLOT_DATA + 1;
      op.packet = packet;
      ASSERT_EQ(p.a.out->send(op), errorcode_t::done);
    }
  }
  std::size_t out() {
    p.a.pool.reclaim();
    return p.a.pool.outstanding();
  }
  pair p;
};

}  // namespace

// The answer to a message must not wait for the line of its packet.
TEST_F(sent_packets, go_back__at_the_next_poll_that_finds_nothing) {
  send(1);
  EXPECT_EQ(p.b.poll(), 1u);
  EXPECT_EQ(out(), 1u);
  EXPECT_EQ(p.b.poll(), 0u);
  EXPECT_EQ(out(), 0u);
}

TEST_F(sent_packets, go_back__when_many_have_been_read) {
  p.begin_stream(p.a);
  EXPECT_EQ(p.b.poll(), 0u);
  send(rx_lane::MOST_OWED + 1);
  EXPECT_EQ(p.b.poll(rx_lane::MOST_OWED - 1), rx_lane::MOST_OWED - 1);
  EXPECT_EQ(out(), rx_lane::MOST_OWED + 1);
  EXPECT_EQ(p.b.poll(1), 1u);
  EXPECT_EQ(out(), 1u);
}

// More than may be lent are read in place as well: an exhausted pool gets them back.
TEST_F(sent_packets, go_back__also_those_that_are_not_lent) {
  send(test::side::PACKETS);
  ASSERT_EQ(p.a.pool.get(), nullptr);
  p.until([&] { return p.b.seen.messages.size() == test::side::PACKETS; });
  p.until([&] { return out() == 0; });
}

// What the polls inside have given back was read before; the message of the handler was not.
TEST_F(sent_packets, go_back__where_a_handler_polls) {
  p.begin_stream(p.a);
  send(3);
  std::vector<std::size_t> inside;
  p.b.seen.answer = [&](const net::arrival&) {
    if (inside.empty()) {
      inside.push_back(0);
      while (p.b.poll() != 0) continue;
      inside.push_back(out());
    }
    return net::verdict::taken;
  };
  EXPECT_EQ(p.b.poll(), 1u);
  ASSERT_EQ(inside.size(), 2u);
  EXPECT_EQ(inside[1], 1u) << "the handler still reads its own";
  EXPECT_EQ(out(), 1u);
  EXPECT_EQ(p.b.poll(), 0u);
  EXPECT_EQ(out(), 0u);
}

TEST_F(sent_packets, go_back__when_the_device_is_freed) {
  send(1);
  EXPECT_EQ(p.b.poll(), 1u);
  EXPECT_EQ(out(), 1u);
  p.b.out.reset();
  p.b.dev.reset();
  EXPECT_EQ(out(), 0u);
}

// It is not listened to any more, and gets nothing.
TEST_F(sent_packets, of_a_sender_that_broke_the_rules__are_left_alone) {
  p.begin_stream(p.a);
  send(1);
  EXPECT_EQ(p.b.poll(), 1u);
  tx_lane& lane = *p.a.behind().out.own(1);
  lane.publish({0, 1, slot_kind::packet, 0});
  p.until([&] { return !p.b.seen.gone.empty(); });
  EXPECT_EQ(out(), 1u);
}

// By a thread that is not the device's poller, too.
class sent_beside : public test::shared_device {};

TEST_F(sent_beside, go_back__all_of_them) {
  test::worker other([&] { poll(); }, true);
  seen.wanted = {{NEAR, me()}, {FAR, other.id()}};
  poll();
  far.is_in_packets = true;
  test::worker far_sender([&] { say(far); });
  other.go();
  for (int i = 0; i < 20; ++i) lend_far(other);
  far_sender.pause();
  run_until([&] {
    std::vector<mem::packet*> all;
    while (mem::packet* const one = ranks.a.pool.get()) all.push_back(one);
    for (mem::packet* const one : all) ranks.a.pool.put(one);
    return all.size() == test::side::PACKETS;
  });
}

// It lives on, and its pool with it. The message is read when its end is known, so the poll that
// reads it closes the lane.
TEST_F(sent_packets, go_back__when_their_sender_leaves) {
  send(1);
  p.a.net->leave();
  p.a.close();
  p.b.seen.answer = [&](const net::arrival&) {
    const bool has_ended = p.b.say(0, "x") == errorcode_t::fatal;
    return has_ended ? net::verdict::taken : net::verdict::deferred;
  };
  std::size_t behind = 0;  // polls that might have given it back
  pair::until(
      [&] {
        behind += p.b.seen.messages.size();
        p.b.poll();
        return !p.b.seen.gone.empty();
      },
      {});
  EXPECT_EQ(p.b.seen.messages.size(), 1u);
  EXPECT_EQ(behind, 0u);
  EXPECT_EQ(out(), 0u);
}

}  // namespace lci::shm
