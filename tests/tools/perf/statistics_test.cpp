// Medians, quartiles, and the median of ratios of rounds.
#include "tools/perf/statistics.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace lci_perf {
namespace {

TEST(perf_statistics, spread_of__median_and_quartiles_of_odd_and_even_counts) {
  const spread odd = spread_of({5, 1, 3, 2, 4});
  EXPECT_DOUBLE_EQ(odd.median, 3);
  EXPECT_DOUBLE_EQ(odd.low, 2);
  EXPECT_DOUBLE_EQ(odd.high, 4);
  EXPECT_EQ(odd.count, 5);
  const spread even = spread_of({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(even.median, 2.5);
  EXPECT_DOUBLE_EQ(even.low, 1.75);
  EXPECT_DOUBLE_EQ(even.high, 3.25);
}

TEST(perf_statistics, spread_of__one_value_and_none) {
  const spread one = spread_of({7});
  EXPECT_DOUBLE_EQ(one.median, 7);
  EXPECT_DOUBLE_EQ(one.low, 7);
  EXPECT_DOUBLE_EQ(one.high, 7);
  EXPECT_EQ(spread_of({}).count, 0);
}

TEST(perf_statistics, spread_of__what_is_not_finite_is_left_out) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               inf = std::numeric_limits<double>::infinity();
  const spread all = spread_of({nan, 2, inf, 4, -inf});
  EXPECT_EQ(all.count, 2);
  EXPECT_DOUBLE_EQ(all.median, 3);
}

// The machine slowed down by half in the third round: the ratios do not see it, the medians would.
TEST(perf_statistics, advantage__is_the_median_of_ratios_and_not_the_ratio_of_medians) {
  const std::vector<double> ours = {100, 100, 200}, theirs = {150, 150, 300};
  const spread less = advantage(ours, theirs, true);
  EXPECT_DOUBLE_EQ(less.median, 1.5);
  EXPECT_DOUBLE_EQ(less.low, 1.5);
  EXPECT_DOUBLE_EQ(less.high, 1.5);
  const spread mixed = advantage({10, 1, 10}, {5, 5, 20}, false);
  EXPECT_DOUBLE_EQ(mixed.median, 0.5);  // of 2, 0.2 and 0.5; the medians are 10 and 5
}

TEST(perf_statistics, advantage__above_one_is_better_whichever_way_the_unit_goes) {
  EXPECT_DOUBLE_EQ(advantage({50}, {100}, true).median, 2);
  EXPECT_DOUBLE_EQ(advantage({50}, {100}, false).median, 0.5);
  EXPECT_EQ(advantage({}, {1, 2}, true).count, 0);
  EXPECT_EQ(advantage({1, 2, 3}, {1, 2}, true).count, 2);
}

}  // namespace
}  // namespace lci_perf
