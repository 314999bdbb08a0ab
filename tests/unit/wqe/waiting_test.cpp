#include "lci/wqe/waiting.hpp"

#include <gtest/gtest.h>

namespace {

using namespace lci::wqe;

// Rounds until the wait ends; the status that ended it.
status end_of(waiter& wait) {
  for (;;)
    if (const status s = wait(); s != status::ok) return s;
}

TEST(waiting, no_limits__goes_on) {
  waiter wait({});
  for (std::uint32_t i = 0; i < 10 * waiter::CHECK_EVERY; ++i) ASSERT_EQ(wait(), status::ok);
}

TEST(waiting, abort__is_seen_at_once_or_within_the_rounds_between_two_looks) {
  std::uint32_t flag = 1;
  waiter at_once({&flag, 0});
  EXPECT_EQ(at_once(), status::aborted);
  flag = 0;
  waiter wait({&flag, 0});
  ASSERT_EQ(wait(), status::ok);
  flag = 1;
  std::uint32_t rounds = 1;
  while (wait() == status::ok) ++rounds;
  EXPECT_EQ(rounds, waiter::CHECK_EVERY);
}

TEST(waiting, limit__ends_the_wait_and_progress_begins_it_anew) {
  waiter wait({nullptr, 1});
  EXPECT_EQ(end_of(wait), status::timed_out);
  wait.progressed();
  EXPECT_EQ(end_of(wait), status::timed_out);
  // With the shortest limit, to which all rounds but the first would come too late.
  waiter moving({nullptr, 1});
  for (std::uint32_t i = 0; i < 10 * waiter::CHECK_EVERY; ++i) {
    moving.progressed();
    ASSERT_EQ(moving(), status::ok);
  }
}

// A value that moves keeps the wait alive; one that stands still does not.
TEST(waiting, saw__a_value_that_moves_is_progress) {
  waiter moving({nullptr, 1});
  for (std::uint32_t i = 1; i < 10 * waiter::CHECK_EVERY; ++i) {
    moving.saw(i);
    ASSERT_EQ(moving(), status::ok);
  }
  waiter standing({nullptr, 1});
  status s = status::ok;
  while (s == status::ok) {
    standing.saw(7);
    s = standing();
  }
  EXPECT_EQ(s, status::timed_out);
}

}  // namespace
