// One thread at a time has it, whichever way it is taken; it becomes shared when a second thread
// comes and somebody's own again when only one is left.
#include "lci/base/biased_lock.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>
#include <vector>

#include "tests/support/in_thread.hpp"

namespace lci::base {
namespace {

using test::in_thread;

class biased_lock_forms : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { force_locked_fence_for_test(GetParam()); }
  void TearDown() override { force_locked_fence_for_test(false); }
};
INSTANTIATE_TEST_SUITE_P(forms, biased_lock_forms, testing::Values(false, true),
                         [](const auto& form) { return form.param ? "locked" : "plain"; });

void turn(biased_lock& it) {
  ASSERT_TRUE(it.try_lock());
  it.unlock();
}

TEST_P(biased_lock_forms, try_lock__stays_the_own_of_one_thread) {
  biased_lock it;
  for (int i = 0; i < 10; ++i) turn(it);
  EXPECT_FALSE(it.is_shared());
}

TEST_P(biased_lock_forms, try_lock__another_threads_is_shared_from_then_on) {
  biased_lock it;
  turn(it);
  in_thread([&] { turn(it); });
  EXPECT_TRUE(it.is_shared());
  turn(it);
  EXPECT_TRUE(it.is_shared());
}

TEST_P(biased_lock_forms, try_lock__refused_while_it_is_held_in_either_way) {
  biased_lock it;
  for (const bool shared : {false, true}) {
    ASSERT_TRUE(it.try_lock());
    EXPECT_EQ(it.is_shared(), shared);
    in_thread([&] { EXPECT_FALSE(it.try_lock()); });
    EXPECT_EQ(it.is_shared(), shared) << "the way does not change while it is held";
    it.unlock();
    in_thread([&] { turn(it); });
  }
}

TEST_P(biased_lock_forms, unlock__after_a_long_streak_it_is_that_threads_own) {
  biased_lock it;
  turn(it);
  in_thread([&] { turn(it); });
  for (std::uint32_t i = 0; i < biased_lock::STREAK; ++i) turn(it);
  EXPECT_TRUE(it.is_shared()) << "not too soon";
  for (int i = 0; i < 2; ++i) turn(it);
  EXPECT_FALSE(it.is_shared());
  in_thread([&] { turn(it); });
  EXPECT_TRUE(it.is_shared());
}

// Long enough turns alone that the lock goes both ways many times.
TEST_P(biased_lock_forms, try_lock__one_thread_at_a_time) {
  constexpr int THREADS = 3;
  constexpr std::uint32_t EACH = 20 * biased_lock::STREAK;
  biased_lock it;
  std::uint64_t count = 0;
  std::barrier start(THREADS);
  std::vector<std::thread> threads;
  for (int i = 0; i < THREADS; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      for (std::uint32_t n = 0; n < EACH;) {
        if (!it.try_lock()) {
          std::this_thread::yield();
          continue;
        }
        ++count;
        ++n;
        it.unlock();
      }
    });
  }
  for (auto& one : threads) one.join();
  EXPECT_EQ(count, std::uint64_t{THREADS} * EACH);
}

}  // namespace
}  // namespace lci::base
