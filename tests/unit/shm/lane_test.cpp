#include "backends/shm/lane.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace lci::shm {
namespace {

// Both ends of a lane in private memory.
struct two_ends {
  two_ends() {
    tx.slots = slots.get();
    rx.begin(slots.get(), 0);
  }
  void start_at(std::uint32_t position) {
    tx.tail.store(position);
    rx.begin(slots.get(), position);
  }
  // The receiver takes the next message, and hands its slot back.
  void take() {
    rx.move_to(rx.cursor + 1);
    rx.hand_back();
  }
  bool write(std::uint32_t imm) {
    if (tx.is_full()) return false;
    tx.publish({imm, 0, slot_kind::message, 0});
    return true;
  }
  std::uint32_t imm_at(std::uint32_t position) const {
    return slot_header::unpack(rx.at(position).header.load()).imm;
  }
  std::unique_ptr<slot[]> slots = std::make_unique<slot[]>(LANE_SLOTS);
  tx_lane tx;
  rx_lane rx;
};

}  // namespace

TEST(tx_lane, publish__full_after_all_slots_and_free_again_one_by_one) {
  two_ends l;
  for (std::uint32_t i = 0; i < LANE_SLOTS; ++i) EXPECT_TRUE(l.write(i));
  EXPECT_FALSE(l.write(999));
  l.take();
  l.rx.settle();
  EXPECT_TRUE(l.write(128));
  EXPECT_FALSE(l.write(999));
  EXPECT_EQ(l.imm_at(128), 128u);
}

TEST(rx_lane, hand_back__late_and_settled_when_there_is_time) {
  two_ends l;
  for (std::uint32_t i = 0; i < 2 * rx_lane::MOST_OWED; ++i) l.write(i);
  for (std::uint32_t i = 0; i < rx_lane::MOST_OWED; ++i) l.take();
  EXPECT_FALSE(l.tx.is_consumed(0)) << "the answer to a message must not wait for its slot";
  l.take();
  for (std::uint32_t i = 0; i < rx_lane::MOST_OWED; ++i) EXPECT_TRUE(l.tx.is_consumed(i));
  EXPECT_FALSE(l.tx.is_consumed(rx_lane::MOST_OWED));
  l.rx.settle();
  EXPECT_TRUE(l.tx.is_consumed(rx_lane::MOST_OWED));
  EXPECT_FALSE(l.tx.is_consumed(rx_lane::MOST_OWED + 1)) << "nobody has read it";
}

TEST(rx_lane, hand_back__past_the_end_of_the_range_of_positions) {
  two_ends l;
  l.start_at(~0u);
  l.write(1);
  l.write(2);
  l.take();
  l.take();
  l.rx.settle();
  EXPECT_TRUE(l.tx.is_consumed(~0u));
  EXPECT_TRUE(l.tx.is_consumed(0));
}

TEST(tx_lane, is_consumed__before_after_and_when_the_slot_is_used_again) {
  two_ends l;
  l.write(0);
  EXPECT_FALSE(l.tx.is_consumed(0));
  l.take();
  l.rx.settle();
  EXPECT_TRUE(l.tx.is_consumed(0));
  for (std::uint32_t i = 0; i < LANE_SLOTS; ++i) l.write(i);
  EXPECT_TRUE(l.tx.is_consumed(0)) << "message 128 lies in the slot now";
  EXPECT_FALSE(l.tx.is_consumed(1));
}

TEST(tx_lane, position__may_pass_the_end_of_its_range) {
  two_ends l;
  l.start_at(~0u);
  l.write(1);
  l.write(2);
  EXPECT_EQ(l.imm_at(~0u), 1u);
  EXPECT_EQ(l.imm_at(0), 2u);
  EXPECT_FALSE(l.tx.is_consumed(~0u));
}

TEST(rx_lane, put_back__the_last_one_taken_moves_the_cursor) {
  two_ends l;
  l.rx.move_to(5);
  l.rx.put_back();
  EXPECT_EQ(l.rx.cursor, 4u);
  EXPECT_EQ(l.rx.next, &l.rx.at(4));
}

// The cursor may come round to it: it must not be owed.
TEST(rx_lane, hand_back_last__gives_back_what_is_owed_and_this_one) {
  two_ends l;
  l.write(1);
  l.write(2);
  l.take();
  l.rx.move_to(2);
  l.rx.hand_back_last();
  EXPECT_TRUE(l.tx.is_consumed(0));
  EXPECT_TRUE(l.tx.is_consumed(1));
  EXPECT_EQ(l.rx.owed, 0u);
}

TEST(rx_lane, is_empty__not_while_something_is_waiting) {
  two_ends l;
  EXPECT_TRUE(l.rx.is_empty());
  l.write(1);
  EXPECT_FALSE(l.rx.is_empty());
  l.rx.kill();
  EXPECT_TRUE(l.rx.is_empty()) << "what the sender writes is nothing any more";
}

}  // namespace lci::shm
