// Sizes that budgets are built on: change one knowingly.
#include <gtest/gtest.h>

#include "lci/comp/signal.hpp"

TEST(object_size, status__40_bytes_and_copied_plainly) {
  EXPECT_EQ(sizeof(lci::status_t), 40u);
  EXPECT_TRUE(std::is_trivially_copyable_v<lci::status_t>);
}

// A signal reads the kind and writes the value: one line for a counter, one more for a
// synchronizer's status.
TEST(object_size, small_kinds__one_and_two_lines) {
  EXPECT_EQ(sizeof(lci::comp::counter), 64u);
  EXPECT_EQ(sizeof(lci::comp::handler), 64u);
  EXPECT_EQ(sizeof(lci::comp::sync), 128u);
}

// The kind, and what only the type per_thread has; the queue's own line; its two ends.
TEST(object_size, queue__three_lines) { EXPECT_EQ(sizeof(lci::comp::queue), 192u); }

TEST(object_size, tombstone__fits_where_any_kind_was) {
  EXPECT_LE(sizeof(lci::comp::freed), sizeof(lci::comp::counter));
}
