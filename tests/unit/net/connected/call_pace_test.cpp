#include "lci/net/connected/call_pace.hpp"

#include <gtest/gtest.h>

namespace lci::net::connected {
namespace {

TEST(call_pace, is_due__at_once_and_then_less_and_less_often) {
  const std::uint64_t ms = base::ticks_per_ms();
  call_pace pace;
  std::uint64_t now = 1000 * ms;
  EXPECT_TRUE(pace.is_due(now));
  std::uint64_t wait = 10;
  for (int i = 0; i < 9; ++i) {
    pace.wait_from(now);
    pace.count();
    EXPECT_FALSE(pace.is_due(now + wait * ms - 1)) << i;
    EXPECT_TRUE(pace.is_due(now + wait * ms)) << i;
    now += wait * ms;
    wait = std::min<std::uint64_t>(2 * wait, 500);
  }
}

TEST(call_pace, is_due__what_could_not_be_said_is_said_next_time) {
  call_pace pace;
  pace.wait_from(base::cpu_ticks());
  EXPECT_TRUE(pace.is_due(base::cpu_ticks()));
}

TEST(call_pace, is_due__also_a_later_one_that_could_not_be_said) {
  const std::uint64_t ms = base::ticks_per_ms();
  call_pace pace;
  std::uint64_t now = 1000 * ms;
  const auto call = [&] {
    pace.wait_from(now);
    pace.count();
  };
  call();
  now += 10 * ms;
  for (int i = 0; i < 20; ++i) {
    call();
    pace.discount();
    EXPECT_TRUE(pace.is_due(now)) << i;
  }
  call();
  EXPECT_FALSE(pace.is_due(now + 20 * ms - 1));
  EXPECT_TRUE(pace.is_due(now + 20 * ms)) << "as if it had been said at the first try";
}

TEST(call_pace, is_worth_a_line__once_also_if_the_next_cannot_be_said) {
  call_pace pace;
  int lines = 0;
  for (std::uint32_t i = 0; i < call_pace::CALLS_TO_SAY; ++i) {
    pace.count();
    lines += pace.is_worth_a_line() ? 1 : 0;
  }
  for (int i = 0; i < 3; ++i) {
    pace.count();
    pace.discount();
    lines += pace.is_worth_a_line() ? 1 : 0;
  }
  EXPECT_EQ(lines, 1);
}

TEST(call_pace, is_worth_a_line__once_in_about_20_s) {
  const std::uint64_t ms = base::ticks_per_ms();
  call_pace pace;
  std::uint64_t now = 0;
  int lines = 0;
  std::uint64_t said_at = 0;
  for (; now < 60'000 * ms; now += ms) {
    if (!pace.is_due(now)) continue;
    pace.wait_from(now);
    pace.count();
    if (pace.is_worth_a_line()) {
      ++lines;
      said_at = now / ms;
    }
  }
  EXPECT_EQ(lines, 1);
  EXPECT_GE(said_at, 19'000u);
  EXPECT_LE(said_at, 21'000u);
}

}  // namespace
}  // namespace lci::net::connected
