#include "lci/base/rough_clock.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace lci::base {
namespace {

constexpr std::uint64_t PER_MS = 1000;
constexpr std::uint64_t LONG = rough_clock::GAP_MS * PER_MS;

TEST(rough_clock_test, now__is_the_last_look_that_was_a_millisecond_later) {
  rough_clock clock;
  EXPECT_EQ(clock.now(), 0u) << "nobody has looked";
  clock.look(5000, PER_MS);
  clock.look(5999, PER_MS);
  EXPECT_EQ(clock.now(), 5000u);
  clock.look(6000, PER_MS);
  EXPECT_EQ(clock.now(), 6000u);
  clock.look(5500, PER_MS);
  EXPECT_EQ(clock.now(), 6000u) << "another core's counter was behind";
}

TEST(rough_clock_test, latest__is_the_end_of_a_long_time_without_a_look) {
  rough_clock clock;
  clock.look(5000, PER_MS);
  EXPECT_EQ(clock.latest(5000), 5000u) << "not known until the next look";
  clock.look(5000 + LONG - 1, PER_MS);
  EXPECT_EQ(clock.latest(5000), 5000u) << "not long enough to matter";
  clock.look(5000 + 3 * LONG, PER_MS);
  EXPECT_EQ(clock.latest(5000 + LONG - 1), 5000 + 3 * LONG);
  EXPECT_EQ(clock.latest(5000), 5000u);
}

TEST(rough_clock_test, latest__knows_the_last_gaps_only) {
  rough_clock clock;
  for (std::uint64_t i = 1; i <= rough_clock::GAPS + 2; ++i) clock.look(i * LONG, PER_MS);
  EXPECT_EQ(clock.latest(LONG), LONG) << "replaced";
  for (std::uint64_t i = 2; i <= rough_clock::GAPS + 1; ++i)
    EXPECT_EQ(clock.latest(i * LONG), (i + 1) * LONG);
}

}  // namespace
}  // namespace lci::base
