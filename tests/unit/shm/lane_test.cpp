#include "backends/shm/lane.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace lci::shm {
namespace {

constexpr std::uint32_t BEGIN = first_position(0);

// Both ends of a lane in private memory.
struct two_ends {
  explicit two_ends(std::uint32_t first = BEGIN) {
    prepare_slots(slots.get(), first % LANE_SLOTS);
    consumed = first;
    tx.begin(slots.get(), first, consumed);
    rx.begin(slots.get(), first, consumed);
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
  consumed_count consumed{0};
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
  EXPECT_EQ(l.imm_at(BEGIN + 128), 128u);
}

TEST(tx_lane, is_full__before_the_lane_is_made) { EXPECT_TRUE(tx_lane().seems_full()); }

// A slot keeps what was in it: only the lap tells a message from one that was read.
TEST(rx_lane, is_empty__slots_of_the_lap_before_are_no_messages) {
  for (const std::uint32_t first_slot : {0u, 1u, 77u, LANE_SLOTS - 1}) {
    two_ends l(first_position(first_slot));
    for (std::uint32_t i = 0; i < 5 * LANE_SLOTS; ++i) {
      EXPECT_TRUE(l.rx.is_empty()) << "message " << i << ", first slot " << first_slot;
      ASSERT_TRUE(l.write(i));
      ASSERT_FALSE(l.rx.is_empty());
      EXPECT_EQ(slot_header::unpack(l.rx.look()).imm, i);
      l.take();
    }
    EXPECT_TRUE(l.rx.is_empty());
  }
}

TEST(tx_lane, is_full__a_count_that_cannot_be_is_not_believed) {
  two_ends l;
  for (std::uint32_t i = 0; i < LANE_SLOTS; ++i) ASSERT_TRUE(l.write(i));
  for (const std::uint32_t lie : {BEGIN - 1, BEGIN - LANE_SLOTS, BEGIN + LANE_SLOTS + 1, ~0u}) {
    l.consumed = lie;
    EXPECT_TRUE(l.tx.is_full()) << lie;
  }
  l.consumed = BEGIN + 1;
  EXPECT_FALSE(l.tx.is_full());
}

TEST(rx_lane, hand_back__late_and_settled_when_there_is_time) {
  two_ends l;
  for (std::uint32_t i = 0; i < 2 * rx_lane::MOST_OWED; ++i) l.write(i);
  for (std::uint32_t i = 1; i < rx_lane::MOST_OWED; ++i) l.take();
  EXPECT_FALSE(l.tx.is_consumed(BEGIN)) << "the answer to a message must not wait for its slot";
  l.take();
  for (std::uint32_t i = 0; i < rx_lane::MOST_OWED; ++i) EXPECT_TRUE(l.tx.is_consumed(BEGIN + i));
  EXPECT_FALSE(l.tx.is_consumed(BEGIN + rx_lane::MOST_OWED));
  l.take();
  EXPECT_FALSE(l.tx.is_consumed(BEGIN + rx_lane::MOST_OWED));
  l.rx.settle();
  EXPECT_TRUE(l.tx.is_consumed(BEGIN + rx_lane::MOST_OWED));
  EXPECT_FALSE(l.tx.is_consumed(BEGIN + rx_lane::MOST_OWED + 1)) << "nobody has read it";
}

TEST(rx_lane, hand_back__past_the_end_of_the_range_of_positions) {
  two_ends l(~0u);
  l.write(1);
  l.write(2);
  EXPECT_FALSE(l.rx.is_empty());
  l.take();
  EXPECT_FALSE(l.rx.is_empty());
  l.take();
  EXPECT_TRUE(l.rx.is_empty());
  l.rx.settle();
  EXPECT_TRUE(l.tx.is_consumed(~0u));
  EXPECT_TRUE(l.tx.is_consumed(0));
  EXPECT_FALSE(l.tx.is_consumed(1));
}

TEST(tx_lane, is_consumed__before_after_and_when_the_slot_is_used_again) {
  two_ends l;
  l.write(0);
  EXPECT_FALSE(l.tx.is_consumed(BEGIN));
  l.take();
  l.rx.settle();
  EXPECT_TRUE(l.tx.is_consumed(BEGIN));
  for (std::uint32_t i = 0; i < LANE_SLOTS; ++i) l.write(i);
  EXPECT_TRUE(l.tx.is_consumed(BEGIN)) << "message 128 lies in the slot now";
  EXPECT_FALSE(l.tx.is_consumed(BEGIN + 1));
}

TEST(tx_lane, position__may_pass_the_end_of_its_range) {
  two_ends l(~0u);
  l.write(1);
  l.write(2);
  EXPECT_EQ(l.imm_at(~0u), 1u);
  EXPECT_EQ(l.imm_at(0), 2u);
  EXPECT_FALSE(l.tx.is_consumed(~0u));
}

TEST(rx_lane, put_back__the_last_one_taken_moves_the_cursor) {
  two_ends l;
  l.rx.move_to(BEGIN + 5);
  l.rx.put_back();
  EXPECT_EQ(l.rx.cursor, BEGIN + 4u);
  EXPECT_EQ(l.rx.next, &l.rx.at(BEGIN + 4));
}

TEST(rx_lane, put_back__across_the_end_of_a_lap) {
  two_ends l(first_position(LANE_SLOTS - 1));
  l.write(1);
  l.rx.move_to(l.rx.cursor + 1);
  EXPECT_TRUE(l.rx.is_empty());
  l.rx.put_back();
  EXPECT_FALSE(l.rx.is_empty());
}

// The cursor may come round to it: it must not be owed.
TEST(rx_lane, hand_back_last__gives_back_what_is_owed_and_this_one) {
  two_ends l;
  l.write(1);
  l.write(2);
  l.take();
  l.rx.move_to(BEGIN + 2);
  l.rx.hand_back_last();
  EXPECT_TRUE(l.tx.is_consumed(BEGIN));
  EXPECT_TRUE(l.tx.is_consumed(BEGIN + 1));
  EXPECT_EQ(l.rx.owed, 0u);
}

// What is presented while somebody settles is not done with.
TEST(rx_lane, settle__leaves_out_the_message_before_the_cursor) {
  two_ends l;
  l.write(1);
  l.write(2);
  l.take();
  l.rx.move_to(l.rx.cursor + 1);
  l.rx.settle();
  EXPECT_TRUE(l.tx.is_consumed(BEGIN));
  EXPECT_FALSE(l.tx.is_consumed(BEGIN + 1));
}

TEST(rx_lane, goes_on__not_for_some_drains_behind_one_that_soon_found_no_more) {
  two_ends l;
  EXPECT_FALSE(l.rx.goes_on(1)) << "nothing is there";
  l.write(1);
  for (int i = 0; i < rx_lane::PATIENCE; ++i) EXPECT_FALSE(l.rx.goes_on(1)) << i;
  EXPECT_TRUE(l.rx.goes_on(1));
  l.take();
  EXPECT_FALSE(l.rx.goes_on(rx_lane::FEW + 1)) << "nothing is there, behind many";
  l.write(2);
  EXPECT_TRUE(l.rx.goes_on(1));
}

TEST(rx_lane, is_empty__not_while_something_is_waiting) {
  two_ends l;
  EXPECT_TRUE(l.rx.is_empty());
  l.write(1);
  EXPECT_FALSE(l.rx.is_empty());
  l.rx.kill();
  EXPECT_TRUE(l.rx.is_empty()) << "what the sender writes is nothing any more";
}

TEST(rx_lane, kill__in_any_lap) {
  for (std::uint32_t lap = 0; lap < 3; ++lap) {
    two_ends l(BEGIN + lap * LANE_SLOTS);
    l.rx.kill();
    EXPECT_TRUE(l.rx.is_empty());
  }
}

}  // namespace lci::shm
