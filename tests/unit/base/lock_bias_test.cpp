// One thread uses something without locks; others make it move, and then end it.
#include "lci/base/lock_bias.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/in_thread.hpp"

namespace lci::base {
namespace {

using test::in_thread;

class lock_bias_forms : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { force_locked_fence_for_test(GetParam()); }
  void TearDown() override { force_locked_fence_for_test(false); }

  lock_bias it;
};
INSTANTIATE_TEST_SUITE_P(forms, lock_bias_forms, testing::Values(false, true),
                         [](const auto& form) { return form.param ? "locked" : "plain"; });

bool is_alone(lock_bias& it) {
  const bool alone = it.enter_brief();
  if (alone) lock_bias::leave_brief();
  return alone;
}

TEST_P(lock_bias_forms, enter_brief__one_thread_needs_no_lock) {
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(is_alone(it));
  EXPECT_FALSE(it.is_over());
}

TEST_P(lock_bias_forms, enter_brief__moves_to_who_comes_a_few_times_then_is_over) {
  EXPECT_TRUE(is_alone(it));
  for (std::uint32_t i = 0; i < lock_bias::MOVES; ++i) {
    if (i % 2 == 0)
      in_thread([&] { EXPECT_TRUE(is_alone(it)); });
    else
      EXPECT_TRUE(is_alone(it));
    EXPECT_FALSE(it.is_over());
  }
  in_thread([&] { EXPECT_FALSE(is_alone(it)); });
  EXPECT_TRUE(it.is_over());
  EXPECT_FALSE(is_alone(it));
}

TEST_P(lock_bias_forms, visit__nests_and_goes_with_brief_ones) {
  {
    const lock_bias::visit outer(it);
    const lock_bias::visit inner(it);
    EXPECT_TRUE(is_alone(it));
    EXPECT_FALSE(lock_bias::look(it)) << "a handler that interrupts a visit is to look elsewhere";
  }
  EXPECT_TRUE(lock_bias::look(it));
}

// The taker has withdrawn the bias again and again, and waits for the outer visit.
TEST_P(lock_bias_forms, visit__nests_while_another_thread_takes_the_bias) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> comes{false};
    std::thread other;
    {
      const lock_bias::visit outer(it);
      other = std::thread([&] {
        comes = true;
        is_alone(it);
      });
      while (!comes) std::this_thread::yield();
      for (int i = 0; i < 200; ++i) {
        const lock_bias::visit inner(it);
        std::this_thread::yield();
      }
    }
    other.join();
  }
  EXPECT_TRUE(it.is_over());
}

TEST_P(lock_bias_forms, look__by_a_thread_without_a_record) {
  std::thread([&] { EXPECT_FALSE(lock_bias::look(it)); }).join();
  for (std::uint32_t i = 0; i <= lock_bias::MOVES + 1; ++i) in_thread([&] { is_alone(it); });
  is_alone(it);
  for (std::uint32_t i = 0; i <= lock_bias::MOVES + 1; ++i) {
    in_thread([&] { is_alone(it); });
    is_alone(it);
  }
  ASSERT_TRUE(it.is_over());
  std::thread([&] { EXPECT_TRUE(lock_bias::look(it)); }).join();
}

TEST_P(lock_bias_forms, look__does_not_wait_for_another_thread) {
  for (const bool is_brief : {true, false}) {
    std::barrier step(2);
    std::thread other([&] {
      if (is_brief) {
        EXPECT_TRUE(it.enter_brief());
        step.arrive_and_wait();
        step.arrive_and_wait();
        lock_bias::leave_brief();
      } else {
        const lock_bias::visit inside(it);
        step.arrive_and_wait();
        step.arrive_and_wait();
      }
    });
    step.arrive_and_wait();
    EXPECT_FALSE(lock_bias::look(it));
    step.arrive_and_wait();
    other.join();
    EXPECT_TRUE(lock_bias::look(it));
  }
  EXPECT_FALSE(it.is_over());
}

// Whoever is not alone takes the lock: the count comes out only if never two are in.
TEST_P(lock_bias_forms, one_thread_at_a_time) {
  constexpr int THREADS = 3, ROUNDS = 200, EACH = 100;
  for (int round = 0; round < ROUNDS; ++round) {
    lock_bias one;
    std::mutex lock;
    std::uint64_t count = 0;
    std::barrier start(THREADS);
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; ++i)
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        for (int n = 0; n < EACH; ++n) {
          if (n % 10 == 0) start.arrive_and_wait();  // all three are in each part, so it moves
          if ((n + i) % 7 == 0) {
            const lock_bias::visit inside(one);
            const std::lock_guard guard(lock);
            ++count;
          } else if (one.enter_brief()) {
            ++count;
            lock_bias::leave_brief();
          } else {
            const std::lock_guard guard(lock);
            ++count;
          }
        }
      });
    for (auto& thread : threads) thread.join();
    ASSERT_EQ(count, std::uint64_t{THREADS} * EACH);
    ASSERT_TRUE(one.is_over());
  }
}

}  // namespace
}  // namespace lci::base
