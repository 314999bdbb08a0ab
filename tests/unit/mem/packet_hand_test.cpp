// A packet that a handler returns is noted once, by the right hand, and only while it is the
// user's.
#include "lci/mem/packet_hand.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "lci/mem/arena.hpp"
#include "lci/mem/packet_pool.hpp"

namespace lci::mem {
namespace {

class in_hand : public testing::Test {
 protected:
  arena arena_{std::size_t{4} << 20};
  packet_pool pool_{arena_, 512, 4};
  packet* const first_ = pool_.get();
  packet* const second_ = pool_.get();
};

TEST_F(in_hand, returned__once_and_then_it_is_pooled) {
  const packet_hand hand(first_);
  EXPECT_FALSE(hand.is_returned());
  EXPECT_TRUE(return_to_hand(first_->payload()));
  EXPECT_TRUE(hand.is_returned());
  EXPECT_EQ(first_->state.load(), packet_state::pooled);
  EXPECT_FALSE(return_to_hand(first_->payload())) << "the second time is for the pool to complain";
}

TEST_F(in_hand, another_packet__is_left_to_the_pool) {
  const packet_hand hand(first_);
  EXPECT_FALSE(return_to_hand(second_->payload()));
  EXPECT_FALSE(return_to_hand(first_->payload() + 1));
  EXPECT_FALSE(return_to_hand(nullptr));
  EXPECT_FALSE(hand.is_returned());
}

TEST_F(in_hand, no_hand__takes_nothing) {
  EXPECT_FALSE(return_to_hand(first_->payload()));
  EXPECT_FALSE(return_to_hand(nullptr));
  { const packet_hand hand(first_); }
  EXPECT_FALSE(return_to_hand(first_->payload())) << "the handler has ended";
}

TEST_F(in_hand, a_packet_that_was_posted__is_no_longer_the_users) {
  const packet_hand hand(first_);
  ASSERT_TRUE(pool_.lend(first_));
  EXPECT_FALSE(return_to_hand(first_->payload()));
}

TEST_F(in_hand, nested__each_hand_has_its_own) {
  const packet_hand outer(first_);
  {
    const packet_hand inner(second_);
    EXPECT_FALSE(return_to_hand(first_->payload())) << "of the outer handler: goes by the pool";
    EXPECT_TRUE(return_to_hand(second_->payload()));
    EXPECT_TRUE(inner.is_returned());
  }
  EXPECT_FALSE(outer.is_returned());
  EXPECT_TRUE(return_to_hand(first_->payload()));
  EXPECT_TRUE(outer.is_returned());
}

TEST_F(in_hand, another_thread__goes_by_the_pool) {
  const packet_hand hand(first_);
  std::thread([&] {
    EXPECT_FALSE(return_to_hand(first_->payload()));
    pool_.put(first_);
  }).join();
  EXPECT_FALSE(hand.is_returned());
}

TEST_F(in_hand, restocked__is_handed_out_again) {
  {
    const packet_hand hand(first_);
    ASSERT_TRUE(return_to_hand(first_->payload()));
  }
  pool_.restock(first_);
  EXPECT_EQ(pool_.outstanding(), 1u);
  EXPECT_EQ(pool_.get(), first_);
}

}  // namespace
}  // namespace lci::mem
