#include "lci/data/sharded_queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/support/alloc_counter.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/unit/data/mpmc_rounds.hpp"

using queue_of_numbers = lci::data::sharded_queue<std::uint64_t>;

namespace {

constexpr std::size_t FIRST = 4;

// Runs on a thread that no other test has numbered.
template <class Work>
void elsewhere(Work&& work) {
  std::thread(work).join();
}

}  // namespace

TEST(sharded_queue, try_pop__empty_queue) {
  queue_of_numbers queue(FIRST);
  std::uint64_t out = 9;
  EXPECT_FALSE(queue.try_pop(out));
  queue.split();
  EXPECT_FALSE(queue.try_pop(out));
  EXPECT_EQ(out, 9u);
}

TEST(sharded_queue, try_pop__before_the_split_all_threads_have_one_order) {
  queue_of_numbers queue(FIRST);
  for (std::uint64_t i = 0; i < 100; ++i) elsewhere([&] { queue.push(i); });
  std::uint64_t out = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(queue.try_pop(out));
    ASSERT_EQ(out, i);
  }
  EXPECT_FALSE(queue.is_split());
}

TEST(sharded_queue, split__what_was_there_comes_first) {
  queue_of_numbers queue(FIRST);
  for (std::uint64_t i = 0; i < 100; ++i) queue.push(i);
  queue.split();
  queue.split();
  EXPECT_TRUE(queue.is_split());
  for (std::uint64_t i = 100; i < 1000; ++i) queue.push(i);
  std::uint64_t out = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(queue.try_pop(out));
    ASSERT_EQ(out, i);
  }
  EXPECT_FALSE(queue.try_pop(out));
}

// A thread that is about to push into the one queue finds it closed.
TEST(sharded_queue, push__split_meanwhile) {
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  queue_of_numbers queue(FIRST);
  queue.push(0);
  {
    lci::test::race_hook hook(
        "mpmc_ring.try_push.before_swap", [&] { queue.split(); }, 1);
    queue.push(1);
    EXPECT_EQ(hook.hits(), 1);
  }
  std::uint64_t out = 9;
  for (std::uint64_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(queue.try_pop(out));
    EXPECT_EQ(out, i);
  }
}

// It is full, and another thread closes it before this one adds a ring.
TEST(sharded_queue, push__split_before_the_one_queue_grows) {
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  queue_of_numbers queue(FIRST);
  for (std::uint64_t i = 0; i < FIRST; ++i) queue.push(i);
  {
    lci::test::race_hook hook(
        "mpmc_queue.push_slow", [&] { queue.split(); }, 1);
    queue.push(FIRST);
    EXPECT_EQ(hook.hits(), 1);
  }
  std::uint64_t out = 9;
  for (std::uint64_t i = 0; i <= FIRST; ++i) {
    ASSERT_TRUE(queue.try_pop(out));
    EXPECT_EQ(out, i);
  }
  EXPECT_FALSE(queue.try_pop(out));
}

TEST(sharded_queue, push__many_lost_races_split_it) {
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  queue_of_numbers queue(FIRST);
  std::uint32_t pushes = 0, looks = 0;
  std::uint64_t out = 0;
  // Another thread is faster at the first attempt of each push.
  lci::test::race_hook hook("mpmc_ring.try_push.before_swap", [&] {
    if (++looks % 2 == 1) queue.push(1);
  });
  for (; !queue.is_split() && pushes < 2 * queue_of_numbers::MOST_LOST; ++pushes) {
    queue.push(0);
    while (queue.try_pop(out)) continue;
  }
  EXPECT_TRUE(queue.is_split());
  EXPECT_EQ(pushes, queue_of_numbers::MOST_LOST);
}

TEST(sharded_queue, split__without_memory_nothing_happens) {
  for (std::uint64_t n = 1;; ++n) {
    ASSERT_LT(n, 200u);
    queue_of_numbers queue(FIRST);
    queue.push(1);
    {
      lci::test::fail_nth_allocation fail(n);
      queue.split();
      EXPECT_EQ(queue.is_split(), !fail.fired());
      if (!fail.fired()) break;
    }
    queue.push(2);
    std::uint64_t out = 0;
    ASSERT_TRUE(queue.try_pop(out));
    EXPECT_EQ(out, 1u);
    ASSERT_TRUE(queue.try_pop(out));
    EXPECT_EQ(out, 2u);
  }
}

TEST(sharded_queue, try_pop__who_finds_enough_of_its_own_takes_from_others_as_well) {
  queue_of_numbers queue(FIRST);
  queue.split();
  elsewhere([&] {
    for (std::uint64_t i = 0; i < 3; ++i) queue.push(1000 + i);
  });
  std::uint64_t next = 1000, out = 0;
  for (std::uint64_t i = 0; i < 100 * queue_of_numbers::FAIR && next != 1003; ++i) {
    queue.push(0);
    queue.push(0);
    ASSERT_TRUE(queue.try_pop(out));
    if (out != 0) {
      EXPECT_EQ(out, next++);
    }
  }
  EXPECT_EQ(next, 1003u);
}

TEST(sharded_queue, try_pop__every_shard_is_looked_into) {
  queue_of_numbers queue(FIRST);
  queue.split();
  std::vector<std::thread> threads;
  std::atomic<std::uint64_t> sum{0};
  for (std::uint64_t i = 1; i <= 40; ++i) threads.emplace_back([&queue, i] { queue.push(i); });
  for (std::thread& one : threads) one.join();
  std::uint64_t out = 0;
  while (queue.try_pop(out)) sum += out;
  EXPECT_EQ(sum, 820u);
}

TEST(sharded_queue, stress__nothing_lost_doubled_or_reordered) {
  for (const bool is_split : {false, true}) {
    queue_of_numbers queue(FIRST);
    if (is_split) queue.split();
    lci::test::expect_each_once_in_order([&](std::uint64_t value) { queue.push(value); },
                                         [&](std::uint64_t& out) { return queue.try_pop(out); });
  }
}

// The order of each producer holds across the split, too.
TEST(sharded_queue, stress__split_in_the_middle) {
  for (int round = 0; round < 4; ++round) {
    queue_of_numbers queue(FIRST);
    std::atomic<std::uint64_t> pushed{0};
    lci::test::expect_each_once_in_order(
        [&](std::uint64_t value) {
          if (pushed.fetch_add(1) == 1000) queue.split();
          queue.push(value);
        },
        [&](std::uint64_t& out) { return queue.try_pop(out); });
    EXPECT_TRUE(queue.is_split());
  }
}
