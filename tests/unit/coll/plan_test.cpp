// Tests of plan.hpp: the list itself, and that the pretended job of plan_world.hpp notices bad
// plans.
#include "lci/coll/plan.hpp"

#include <gmock/gmock.h>

#include "tests/support/must_fire.hpp"
#include "tests/unit/coll/plan_world.hpp"

namespace lci::coll::test {
namespace {

TEST(plan, neighbour__wraps_both_ways) {
  const plan_t plan(1, 4);
  EXPECT_EQ(plan.neighbour(1), 2);
  EXPECT_EQ(plan.neighbour(3), 0);
  EXPECT_EQ(plan.neighbour(-2), 3);
  EXPECT_EQ(plan.neighbour(-5), 0);
}

TEST(plan, send__numbers_messages_per_peer_and_direction) {
  plan_t plan(0, 3);
  char byte = 0;
  plan.send(1, &byte, 1);
  plan.recv(1, &byte, 1);
  plan.send(1, &byte, 1);
  plan.send(2, &byte, 1);
  std::vector<uint32_t> numbers;
  for (const step_t& step : plan.steps()) numbers.push_back(step.number);
  EXPECT_THAT(numbers, testing::ElementsAre(0u, 0u, 1u, 0u));
}

TEST(plan, copy__equal_pointers_and_size_zero_are_no_step) {
  plan_t plan(0, 1);
  char a = 0, b = 0;
  plan.copy(&a, &a, 1);
  plan.copy(&a, &b, 0);
  plan.combine(&a, &b, 0);
  EXPECT_TRUE(plan.steps().empty());
}

TEST(plan_world, run__says_no_when_a_message_has_no_receiver) {
  char byte = 0;
  plan_world_t world(2, [&](plan_t& plan) {
    if (plan.me() == 0) plan.send(1, &byte, 1);
  });
  EXPECT_FALSE(world.run());
}

TEST(plan_world, run__says_no_to_a_circle_of_waiting_ranks) {
  char byte[2] = {};
  plan_world_t world(2, [&](plan_t& plan) {
    plan.recv(1 - plan.me(), &byte[plan.me()], 1);
    plan.join();
    plan.send(1 - plan.me(), &byte[plan.me()], 1);
  });
  EXPECT_FALSE(world.run());
}

TEST(plan_world, run__reports_sizes_that_differ) {
  char bytes[8] = {};
  EXPECT_TRUE(lci::test::must_fire(
      [&] {
        plan_world_t world(2, [&](plan_t& plan) {
          if (plan.me() == 0) plan.send(1, bytes, 1);
          if (plan.me() == 1) plan.recv(0, bytes + 4, 2);
        });
        world.run();
      },
      "amount"));
}

}  // namespace
}  // namespace lci::coll::test
