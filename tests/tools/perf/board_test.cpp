// How often arrivals are counted.
#include "tools/perf/board.hpp"

#include <gtest/gtest.h>

namespace lci_perf {
namespace {

TEST(perf_board, step_of__short_messages_seldom_and_each_long_one) {
  EXPECT_EQ(step_of(8, 1u << 14), 1u << 14);
  EXPECT_EQ(step_of(4096, 1u << 14), 1u << 14);
  EXPECT_EQ(step_of(8192, 1u << 14), 1u << 13);
  EXPECT_EQ(step_of(1 << 20, 1u << 14), 64u);
  EXPECT_EQ(step_of(1 << 20, 16), 16u);
  EXPECT_EQ(step_of(64 << 20, 1u << 14), 1u);
  EXPECT_EQ(step_of((64 << 20) + 1, 1u << 14), 1u);
}

}  // namespace
}  // namespace lci_perf
