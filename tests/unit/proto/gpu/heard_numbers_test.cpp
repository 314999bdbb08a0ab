// Numbers that come in any order, and some never.
#include "lci/proto/gpu/heard_numbers.hpp"

#include <gtest/gtest.h>

namespace lci::proto::gpu {
namespace {

TEST(heard_numbers, hear__in_order_and_in_another) {
  heard_numbers h;
  EXPECT_TRUE(h.is_whole());
  for (std::uint64_t n = 1; n <= 3; ++n) {
    h.hear(n, n - 1);
    EXPECT_TRUE(h.is_whole()) << n;
  }
  h.hear(6, 5);
  h.hear(5, 4);
  EXPECT_FALSE(h.is_whole());
  h.hear(4, 3);
  EXPECT_TRUE(h.is_whole());
  h.hear(4, 3);
  EXPECT_TRUE(h.is_whole());
}

TEST(heard_numbers, hear__what_is_over_is_not_waited_for) {
  heard_numbers h;
  h.hear(2, 1);
  EXPECT_FALSE(h.is_whole());
  h.hear(3, 1);
  EXPECT_TRUE(h.is_whole());
  constexpr std::uint64_t NEXT = std::uint64_t{1} << 40;
  h.hear(NEXT + 2, 1);
  EXPECT_FALSE(h.is_whole());
  h.hear(NEXT + 1, 0);
  EXPECT_TRUE(h.is_whole());
  h.hear(4, 1);
  EXPECT_TRUE(h.is_whole()) << "a late one of before";
}

TEST(heard_numbers, hear__far_ahead_of_a_missing_one) {
  heard_numbers h;
  constexpr std::uint64_t LAST = heard_numbers::AHEAD + 9;
  for (std::uint64_t n = 2; n <= LAST; ++n) h.hear(n, n - 1);
  h.hear(1, 0);
  EXPECT_FALSE(h.is_whole()) << "some were too far ahead";
  h.hear(LAST + 1, LAST - heard_numbers::AHEAD - 2);
  EXPECT_FALSE(h.is_whole());
  h.hear(LAST + 2, 1);
  EXPECT_TRUE(h.is_whole());
}

}  // namespace
}  // namespace lci::proto::gpu
