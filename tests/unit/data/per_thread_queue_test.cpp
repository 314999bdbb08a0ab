#include "lci/data/per_thread_queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <latch>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "tests/support/alloc_counter.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/unit/data/mpmc_rounds.hpp"

using queue_of_numbers = lci::data::per_thread_queue<std::uint64_t>;

namespace {

constexpr std::uint32_t PARTS = queue_of_numbers::PARTS;
constexpr std::uint32_t FAIR = queue_of_numbers::FAIR;

class per_thread_queue : public testing::Test {
 protected:
  // So that no thread of a test gets the number of this one.
  per_thread_queue() : mine_(lci::base::thread_id() % PARTS) {}

  // Runs on a thread whose part is none of this one's.
  template <class Work>
  void elsewhere(Work&& work) {
    std::thread([&] {
      ASSERT_NE(lci::base::thread_id() % PARTS, mine_);
      work();
    }).join();
  }

  const std::uint32_t mine_;
};

// All at once, so that each has a number of its own.
void run_at_once(std::uint64_t threads, const std::function<void(std::uint64_t)>& work) {
  std::latch numbered(static_cast<std::ptrdiff_t>(threads));
  std::vector<std::thread> all;
  for (std::uint64_t i = 0; i < threads; ++i)
    all.emplace_back([&, i] {
      lci::base::thread_id();
      numbered.arrive_and_wait();
      work(i);
    });
  for (std::thread& one : all) one.join();
}

}  // namespace

TEST_F(per_thread_queue, try_pop__empty_queue) {
  queue_of_numbers queue;
  std::uint64_t out = 9;
  EXPECT_FALSE(queue.try_pop(out));
  queue.push(1);
  ASSERT_TRUE(queue.try_pop(out));
  EXPECT_EQ(out, 1u);
  EXPECT_FALSE(queue.try_pop(out));
  EXPECT_EQ(out, 1u);
}

// Threads that poll would have to fetch again what another one wrote.
TEST_F(per_thread_queue, try_pop__finds_nothing_and_writes_nothing) {
  queue_of_numbers queue;
  std::uint64_t out = 0;
  queue.push(1);
  elsewhere([&] { queue.push(2); });
  while (queue.try_pop(out)) continue;
  unsigned char before[sizeof queue];
  std::memcpy(before, &queue, sizeof queue);
  for (std::uint32_t i = 0; i < 2 * FAIR; ++i) ASSERT_FALSE(queue.try_pop(out));
  EXPECT_EQ(std::memcmp(before, &queue, sizeof queue), 0);
}

TEST_F(per_thread_queue, push__order_of_one_thread_across_growth) {
  queue_of_numbers queue;
  for (std::uint64_t i = 0; i < 1000; ++i) queue.push(i);
  std::uint64_t out = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(queue.try_pop(out));
    ASSERT_EQ(out, i);
  }
  EXPECT_FALSE(queue.try_pop(out));
}

TEST_F(per_thread_queue, try_pop__own_come_first) {
  queue_of_numbers queue;
  std::uint64_t out = 0;
  queue.push(0);
  ASSERT_TRUE(queue.try_pop(out));  // the first turn is a fair one
  elsewhere([&] { queue.push(1); });
  queue.push(2);
  ASSERT_TRUE(queue.try_pop(out));
  EXPECT_EQ(out, 2u);
  ASSERT_TRUE(queue.try_pop(out));
  EXPECT_EQ(out, 1u);
}

TEST_F(per_thread_queue, try_pop__finds_what_more_threads_than_parts_pushed) {
  queue_of_numbers queue;
  run_at_once(2 * PARTS + 8, [&](std::uint64_t i) { queue.push(i + 1); });
  std::uint64_t out = 0, sum = 0;
  while (queue.try_pop(out)) sum += out;
  EXPECT_EQ(sum, 820u);
}

// A thread that finds enough of its own does not leave the others' elements where they are.
TEST_F(per_thread_queue, try_pop__takes_from_others_while_its_own_never_end) {
  queue_of_numbers queue;
  elsewhere([&] {
    for (std::uint64_t i = 0; i < 3; ++i) queue.push(1000 + i);
  });
  std::uint64_t next = 1000, out = 0;
  for (std::uint32_t pops = 0; pops < 3 * PARTS * FAIR && next != 1003; ++pops) {
    queue.push(0);
    queue.push(0);
    ASSERT_TRUE(queue.try_pop(out));
    if (out != 0) {
      EXPECT_EQ(out, next++);
    }
  }
  EXPECT_EQ(next, 1003u);
}

// A turn that belonged to the thread would come to the same one of the two each time.
TEST_F(per_thread_queue, try_pop__takes_from_others_in_each_of_two_queues_in_turn) {
  queue_of_numbers queues[2];
  elsewhere([&] {
    for (queue_of_numbers& one : queues) one.push(1000);
  });
  bool is_found[2] = {};
  std::uint64_t out = 0;
  for (std::uint32_t pops = 0; pops < PARTS * FAIR; ++pops)
    for (int which = 0; which < 2; ++which) {
      queues[which].push(0);
      queues[which].push(0);
      ASSERT_TRUE(queues[which].try_pop(out));
      if (out != 0) is_found[which] = true;
    }
  EXPECT_TRUE(is_found[0]);
  EXPECT_TRUE(is_found[1]);
}

// Two others push, and the one that is looked into first never ends.
TEST_F(per_thread_queue, try_pop__takes_from_each_of_two_others) {
  queue_of_numbers queue;
  std::uint32_t parts[2];
  std::latch both(2);
  const auto fill = [&](std::uint64_t i) {
    parts[i] = lci::base::thread_id() % PARTS;
    both.arrive_and_wait();
    const bool is_first = parts[i] < parts[1 - i];
    for (std::uint32_t n = 0; n < (is_first ? 2 * PARTS * FAIR : 1); ++n)
      queue.push(is_first ? 0 : 1);
  };
  run_at_once(2, fill);
  ASSERT_NE(parts[0], parts[1]);
  std::uint64_t out = 0;
  std::uint32_t pops = 0;
  for (; out != 1 && pops <= PARTS * FAIR; ++pops) ASSERT_TRUE(queue.try_pop(out));
  EXPECT_EQ(out, 1u) << "not found in " << pops << " pops";
}

TEST_F(per_thread_queue, push_and_pop__no_heap_once_the_part_is_there) {
  if (!lci::test::has_alloc_counter()) GTEST_SKIP() << lci::test::ALLOC_COUNTER_MISSING;
  queue_of_numbers queue;
  std::uint64_t out = 0;
  queue.push(0);
  const lci::test::alloc_counter heap;
  while (queue.try_pop(out)) continue;
  for (int round = 0; round < 100; ++round) {
    for (std::uint64_t i = 0; i < queue_of_numbers::PART_CAPACITY; ++i) queue.push(i);
    while (queue.try_pop(out)) continue;
  }
  EXPECT_EQ(heap.calls(), 0u);
}

TEST_F(per_thread_queue, constructor__no_heap_before_a_push) {
  if (!lci::test::has_alloc_counter()) GTEST_SKIP() << lci::test::ALLOC_COUNTER_MISSING;
  const lci::test::alloc_counter heap;
  queue_of_numbers queue;
  std::uint64_t out = 0;
  EXPECT_FALSE(queue.try_pop(out));
  EXPECT_EQ(heap.calls(), 0u);
}

// Whether the part has to be made or to grow: only that element is lost.
TEST_F(per_thread_queue, push__memory_runs_out) {
  if (!lci::test::has_alloc_counter()) GTEST_SKIP() << lci::test::ALLOC_COUNTER_MISSING;
  for (const std::uint64_t before : {std::size_t{0}, queue_of_numbers::PART_CAPACITY}) {
    bool is_over = false;
    for (std::uint64_t n = 1; !is_over; ++n) {
      ASSERT_LT(n, 10u);
      queue_of_numbers queue;
      for (std::uint64_t i = 0; i < before; ++i) queue.push(i);
      bool failed = false;
      {
        lci::test::fail_nth_allocation fail(n);
        try {
          queue.push(1000);
        } catch (const std::bad_alloc&) {
          failed = true;
        }
        ASSERT_EQ(failed, fail.fired());
      }
      is_over = !failed;
      EXPECT_GT(n, is_over ? 1u : 0u);
      queue.push(1001);
      std::uint64_t out = 0;
      for (std::uint64_t i = 0; i < before; ++i) {
        ASSERT_TRUE(queue.try_pop(out));
        ASSERT_EQ(out, i);
      }
      if (!failed) {
        ASSERT_TRUE(queue.try_pop(out));
        EXPECT_EQ(out, 1000u);
      }
      ASSERT_TRUE(queue.try_pop(out));
      EXPECT_EQ(out, 1001u);
      EXPECT_FALSE(queue.try_pop(out));
    }
  }
}

TEST_F(per_thread_queue, make__another_thread_of_the_number_was_faster) {
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  queue_of_numbers queue;
  {
    lci::test::race_hook hook(
        "per_thread_queue.make", [&] { queue.push(1); }, 1);
    queue.push(2);
    EXPECT_EQ(hook.hits(), 1);
  }
  std::uint64_t out = 0;
  for (std::uint64_t i = 1; i < 3; ++i) {
    ASSERT_TRUE(queue.try_pop(out));
    EXPECT_EQ(out, i);
  }
  EXPECT_FALSE(queue.try_pop(out));
}

// The thread that takes the last element may free the queue, however far its producer has come.
// ThreadSanitizer sees what a producer touches afterwards.
TEST_F(per_thread_queue, push__touches_nothing_once_the_last_element_is_taken) {
  constexpr std::uint64_t PRODUCERS = 3, ROUNDS = 100;
  constexpr std::uint64_t EACH = queue_of_numbers::PART_CAPACITY + 1;  // the last one makes it grow
  std::vector<std::atomic<queue_of_numbers*>> rounds(ROUNDS);
  std::vector<std::thread> threads;
  for (std::uint64_t p = 0; p < PRODUCERS; ++p)
    threads.emplace_back([&] {
      for (std::atomic<queue_of_numbers*>& round : rounds) {
        queue_of_numbers* queue;
        while ((queue = round.load(std::memory_order_acquire)) == nullptr)
          std::this_thread::yield();
        for (std::uint64_t i = 0; i < EACH; ++i) queue->push(i);
      }
    });
  for (std::atomic<queue_of_numbers*>& round : rounds) {
    auto queue = std::make_unique<queue_of_numbers>();
    round.store(queue.get(), std::memory_order_release);
    std::uint64_t out = 0;
    for (std::uint64_t taken = 0; taken < PRODUCERS * EACH;)
      if (queue->try_pop(out))
        ++taken;
      else
        std::this_thread::yield();
  }
  for (std::thread& one : threads) one.join();
}

TEST_F(per_thread_queue, stress__nothing_lost_doubled_or_reordered) {
  queue_of_numbers queue;
  lci::test::expect_each_once_in_order([&](std::uint64_t value) { queue.push(value); },
                                       [&](std::uint64_t& out) { return queue.try_pop(out); });
}

// More threads than parts, each of which pushes and takes.
TEST_F(per_thread_queue, stress__all_threads_push_and_take) {
  constexpr std::uint64_t THREADS = PARTS + 4, EACH = 1000;
  queue_of_numbers queue;
  lci::test::tally all(THREADS, EACH);
  run_at_once(THREADS, [&](std::uint64_t self) {
    lci::test::tally::consumer mine(all);
    std::uint64_t out = 0;
    for (std::uint64_t pushed = 0; !all.is_over();) {
      if (pushed < EACH) queue.push(all.element(self, pushed++));
      if (queue.try_pop(out))
        mine.took(out);
      else
        std::this_thread::yield();
    }
  });
  all.expect_each_once();
}
