// A machine that is made up: a message takes 100 ns, and now and then everything stands still.
#include "tools/perf/calibration.hpp"

#include <gtest/gtest.h>

namespace lci_perf {
namespace {

constexpr double WANTED = 10e6, MESSAGE = 100;
constexpr std::uint64_t MOST = 1'000'000;

TEST(perf_calibration, goes_up_to_the_time_that_is_wanted) {
  calibration c(64, WANTED, MOST);
  int runs = 0;
  for (; !c.is_done() && runs < 20; ++runs)
    c.took(c.count(), 500 + static_cast<double>(c.count()) * MESSAGE);
  EXPECT_LT(runs, 8);
  EXPECT_NEAR(static_cast<double>(c.count()), WANTED / MESSAGE, 1000);
}

TEST(perf_calibration, a_run_that_stood_still_is_not_the_speed) {
  for (int still = 0; still < 6; ++still) {
    calibration c(64, WANTED, MOST);
    for (int run = 0; !c.is_done() && run < 20; ++run)
      c.took(c.count(), (run == still ? 20e6 : 0) + static_cast<double>(c.count()) * MESSAGE);
    ASSERT_TRUE(c.is_done());
    EXPECT_GT(static_cast<double>(c.count()), 0.9 * WANTED / MESSAGE) << still;
  }
}

TEST(perf_calibration, a_slow_library_and_a_fast_one) {
  calibration slow(1, WANTED, MOST);
  for (int run = 0; run < 2; ++run) slow.took(slow.count(), 50e6);
  EXPECT_TRUE(slow.is_done());
  EXPECT_EQ(slow.count(), 1u);
  calibration fast(64, WANTED, MOST);
  for (int run = 0; !fast.is_done() && run < 20; ++run) fast.took(fast.count(), 1);
  EXPECT_TRUE(fast.is_done());
  EXPECT_EQ(fast.count(), MOST);
}

}  // namespace
}  // namespace lci_perf
