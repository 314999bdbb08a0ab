#include "tests/support/race_hook.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "lci/base/race_point.hpp"

namespace lci::test {
namespace {

class race_hooks : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_race_points) GTEST_SKIP() << RACE_POINTS_MISSING;
  }
};

// A look and an act, as library code has them.
int value = 0;
bool take_if_set() {
  if (value == 0) return false;
  LCI_RACE_POINT("selfcheck.take.before_act");
  if (value == 0) return false;
  value = 0;
  return true;
}

TEST_F(race_hooks, run__between_look_and_act) {
  value = 1;
  race_hook hook("selfcheck.take.before_act", [] { value = 0; });
  EXPECT_FALSE(take_if_set());
  EXPECT_EQ(hook.hits(), 1);
}

TEST_F(race_hooks, run__only_under_their_name_and_only_while_alive) {
  value = 1;
  race_hook other("selfcheck.some.other", [] { ADD_FAILURE(); });
  {
    race_hook gone("selfcheck.take.before_act", [] { ADD_FAILURE(); });
  }
  EXPECT_TRUE(take_if_set());
  EXPECT_EQ(other.hits(), 0);
}

TEST_F(race_hooks, run__not_inside_themselves_and_not_beyond_the_limit) {
  race_hook hook(
      "selfcheck.take.before_act", [] { (void)take_if_set(); }, 2);
  for (int i = 0; i < 5; ++i) {
    value = 1;
    (void)take_if_set();
  }
  EXPECT_EQ(hook.hits(), 2);
}

TEST_F(race_hooks, run__in_whatever_thread_comes_through) {
  value = 1;
  std::thread::id where;
  race_hook hook("selfcheck.take.before_act", [&] { where = std::this_thread::get_id(); });
  std::thread other([] { (void)take_if_set(); });
  const std::thread::id id = other.get_id();
  other.join();
  EXPECT_EQ(where, id);
}

TEST(race_point, without_hooks_is_no_more_than_a_look) {
  value = 1;
  EXPECT_TRUE(take_if_set());
}

}  // namespace
}  // namespace lci::test
