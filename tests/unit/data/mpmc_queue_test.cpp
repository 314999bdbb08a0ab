#include "lci/data/mpmc_queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/alloc_counter.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/unit/data/mpmc_rounds.hpp"

using lci::data::mpmc_queue;

TEST(mpmc_queue, try_pop__empty_queue) {
  mpmc_queue<int> queue;
  int out;
  EXPECT_FALSE(queue.try_pop(out));
}

TEST(mpmc_queue, push__grows_by_doubling_and_keeps_the_order) {
  mpmc_queue<int> queue(4);
  for (int i = 0; i < 1000; ++i) queue.push(i);
  EXPECT_EQ(queue.capacity(), 512u);  // 4 + 8 + ... + 256 = 508 elements come before it
  int out;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(queue.try_pop(out));
    ASSERT_EQ(out, i);
  }
  EXPECT_FALSE(queue.try_pop(out));
}

TEST(mpmc_queue, push__goes_on_after_the_old_rings_are_empty) {
  mpmc_queue<int> queue(2);
  int out, pushed = 0, popped = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 20; ++i) queue.push(pushed++);
    while (queue.try_pop(out)) ASSERT_EQ(out, popped++);
    ASSERT_EQ(pushed, popped);
  }
  EXPECT_LE(queue.capacity(), 32u) << "a queue that never held more than 20 kept growing";
}

TEST(mpmc_queue, push_and_pop__no_heap_while_the_length_stays) {
  if (!lci::test::has_alloc_counter()) GTEST_SKIP() << lci::test::ALLOC_COUNTER_MISSING;
  mpmc_queue<int> queue(4);
  int out;
  for (int i = 0; i < 100; ++i) queue.push(i);
  while (queue.try_pop(out)) continue;
  const lci::test::alloc_counter heap;
  for (int round = 0; round < 1000; ++round) {
    for (int i = 0; i < 60; ++i) queue.push(i);
    while (queue.try_pop(out)) continue;
  }
  EXPECT_EQ(heap.calls(), 0u);
}

TEST(mpmc_queue, push__memory_runs_out_while_growing) {
  if (!lci::test::has_alloc_counter()) GTEST_SKIP() << lci::test::ALLOC_COUNTER_MISSING;
  mpmc_queue<int> queue(2);
  queue.push(0);
  queue.push(1);
  for (std::uint64_t n = 1;; ++n) {
    ASSERT_LT(n, 10u);
    bool failed = false;
    lci::test::fail_nth_allocation fail(n);
    try {
      queue.push(2);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    ASSERT_EQ(failed, fail.fired());
    if (!failed) break;
  }
  int out;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(queue.try_pop(out));
    EXPECT_EQ(out, i);
  }
  EXPECT_FALSE(queue.try_pop(out));
}

// A producer finds its ring full; before it acts, others fill and drain the queue and leave that
// ring behind.
TEST(mpmc_queue, push_slow__ring_abandoned_between_look_and_growth) {
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  mpmc_queue<int> queue(2);
  queue.push(0);
  queue.push(1);
  int out, popped = 0;
  lci::test::race_hook hook(
      "mpmc_queue.push_slow",
      [&] {
        for (int i = 2; i < 30; ++i) queue.push(i);
        while (queue.try_pop(out)) ASSERT_EQ(out, popped++);
      },
      1);
  queue.push(30);
  EXPECT_EQ(hook.hits(), 1);
  ASSERT_TRUE(queue.try_pop(out)) << "the element went into a ring that nobody reads";
  EXPECT_EQ(out, 30);
}

// The thread that takes the element may free the queue, and with it the lock.
TEST(mpmc_queue, grow__element_cannot_be_taken_while_the_lock_is_held) {
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  mpmc_queue<int> queue(2);
  queue.push(0);
  queue.push(1);
  int out, popped = 0;
  lci::test::race_hook hook("mpmc_queue.grow.before_unlock", [&] {
    for (; queue.try_pop(out); ++popped) EXPECT_EQ(out, popped);
  });
  queue.push(2);
  EXPECT_EQ(hook.hits(), 1);
  EXPECT_EQ(popped, 2) << "its producer had not yet left the queue";
  ASSERT_TRUE(queue.try_pop(out));
  EXPECT_EQ(out, 2);
}

// The grower's element comes last, and finds the new ring full as well.
TEST(mpmc_queue, grow__others_fill_the_new_ring_first) {
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  mpmc_queue<int> queue(2);
  queue.push(0);
  queue.push(1);
  lci::test::race_hook hook(
      "mpmc_queue.grow.before_unlock",
      [&] {
        for (int i = 2; i < 6; ++i) queue.push(i);
      },
      1);
  queue.push(6);
  EXPECT_EQ(hook.hits(), 1);
  EXPECT_EQ(queue.capacity(), 8u);
  int out;
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE(queue.try_pop(out));
    EXPECT_EQ(out, i);
  }
}

// A consumer sees an exhausted ring; before it moves on, another one moves on and further elements
// come and go.
TEST(mpmc_queue, leave__another_consumer_moved_the_front_meanwhile) {
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  mpmc_queue<int> queue(2);
  int out, popped = 0;
  for (int i = 0; i < 3; ++i) queue.push(i);
  for (; popped < 2; ++popped) ASSERT_TRUE(queue.try_pop(out));
  lci::test::race_hook hook(
      "mpmc_queue.leave",
      [&] {
        for (int i = 3; i < 40; ++i) queue.push(i);
        for (; popped < 20; ++popped) {
          ASSERT_TRUE(queue.try_pop(out));
          ASSERT_EQ(out, popped);
        }
      },
      1);
  for (; queue.try_pop(out); ++popped) ASSERT_EQ(out, popped);
  EXPECT_EQ(hook.hits(), 1);
  EXPECT_EQ(popped, 40);
}

// The start is so small that growth happens all through the run.
TEST(mpmc_queue, stress__nothing_lost_doubled_or_reordered) {
  mpmc_queue<std::uint64_t> queue(2);
  lci::test::expect_each_once_in_order([&](std::uint64_t value) { queue.push(value); },
                                       [&](std::uint64_t& out) { return queue.try_pop(out); });
}
