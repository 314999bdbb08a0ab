#include "lci/comp/queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

#include "lci/errors.hpp"
#include "tests/support/alloc_counter.hpp"

using lci::errorcode_t;
using lci::status_t;
using lci::comp::queue;

namespace {

lci::comp_attr_t with(lci::attr_cq_type_t type, int length) {
  lci::comp_attr_t attr;
  attr.cq_type = type;
  attr.cq_default_length = length;
  return attr;
}
constexpr auto ARRAY = lci::attr_cq_type_t::array_atomic;
constexpr auto LCRQ = lci::attr_cq_type_t::lcrq;
constexpr auto PER_THREAD = lci::attr_cq_type_t::per_thread;

status_t numbered(std::uint64_t n) {
  status_t s = errorcode_t::done;
  s.tag = n;
  return s;
}

}  // namespace

TEST(queue, pop__empty_queue_answers_retry) {
  queue q(with(LCRQ, 65536));
  EXPECT_TRUE(q.pop().is_retry());
}

TEST(queue, pop__gives_back_every_field_in_order) {
  queue q(with(LCRQ, 65536));
  int buffer, context;
  status_t s = errorcode_t::done;
  s.rank = 3;
  s.buffer = &buffer;
  s.size = 4;
  s.tag = 5;
  s.user_context = &context;
  q.push(s);
  q.signal(numbered(6));
  const status_t first = q.pop();
  EXPECT_TRUE(first.is_done());
  EXPECT_EQ(first.rank, 3);
  EXPECT_EQ(first.buffer, &buffer);
  EXPECT_EQ(first.size, 4u);
  EXPECT_EQ(first.tag, 5u);
  EXPECT_EQ(first.user_context, &context);
  EXPECT_EQ(q.pop().tag, 6u);
  EXPECT_TRUE(q.pop().is_retry());
}

// The reference overwrites silently here.
TEST(queue, push__array_atomic_beyond_its_length_loses_nothing) {
  queue q(with(ARRAY, 4));
  for (std::uint64_t i = 0; i < 1000; ++i) q.push(numbered(i));
  for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(q.pop().tag, i);
  EXPECT_TRUE(q.pop().is_retry());
}

TEST(queue, push__array_atomic_within_its_length_needs_no_heap) {
  if (!lci::test::has_alloc_counter()) GTEST_SKIP() << lci::test::ALLOC_COUNTER_MISSING;
  queue q(with(ARRAY, 5000));
  const lci::test::alloc_counter heap;
  for (std::uint64_t i = 0; i < 5000; ++i) q.push(numbered(i));
  EXPECT_EQ(heap.calls(), 0u);
}

TEST(queue, constructor__nonsense_is_refused) {
  EXPECT_THROW(queue(with(ARRAY, 0)), lci::argument_error);
  EXPECT_THROW(queue(with(ARRAY, -1)), lci::argument_error);
  for (const auto type : {LCRQ, PER_THREAD})
    EXPECT_THROW(queue(with(type, 0)), lci::argument_error) << "also where it does not count";
  for (const int type : {-1, 3, 9})
    EXPECT_THROW(queue(with(static_cast<lci::attr_cq_type_t>(type), 4)), lci::argument_error);
}

TEST(queue, pop__per_thread_gives_back_what_all_threads_pushed) {
  queue q(with(PER_THREAD, 65536));
  EXPECT_TRUE(q.pop().is_retry());
  for (std::uint64_t i = 0; i < 1000; ++i) q.push(numbered(i));
  for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(q.pop().tag, i);
  std::thread([&q] { q.signal(numbered(7)); }).join();
  EXPECT_EQ(q.pop().tag, 7u);
  EXPECT_TRUE(q.pop().is_retry());
}

// Only that status is lost.
TEST(queue, push__per_thread_without_memory_for_the_first_status_of_a_thread) {
  if (!lci::test::has_alloc_counter()) GTEST_SKIP() << lci::test::ALLOC_COUNTER_MISSING;
  queue q(with(PER_THREAD, 65536));
  {
    lci::test::fail_nth_allocation fail(1);
    EXPECT_THROW(q.push(numbered(1)), std::bad_alloc);
  }
  q.push(numbered(2));
  EXPECT_EQ(q.pop().tag, 2u);
  EXPECT_TRUE(q.pop().is_retry());
}

TEST(queue, constructor__without_memory) {
  if (!lci::test::has_alloc_counter()) GTEST_SKIP() << lci::test::ALLOC_COUNTER_MISSING;
  for (const auto type : {LCRQ, PER_THREAD}) {
    bool is_over = false;
    for (std::uint64_t n = 1; !is_over; ++n) {
      ASSERT_LT(n, 10u);
      const lci::comp_attr_t attr = with(type, 4);
      bool failed = false;
      lci::test::fail_nth_allocation fail(n);
      try {
        queue q(attr);
      } catch (const std::bad_alloc&) {
        failed = true;
      }
      EXPECT_EQ(failed, fail.fired());
      is_over = !failed;
    }
  }
}

class queue_of_type : public testing::TestWithParam<lci::attr_cq_type_t> {};
INSTANTIATE_TEST_SUITE_P(types, queue_of_type, testing::Values(ARRAY, PER_THREAD));

TEST_P(queue_of_type, stress__every_status_comes_out_once) {
  constexpr std::uint64_t THREADS = 3, EACH = 10000;
  queue q(with(GetParam(), 16));
  std::vector<std::atomic<int>> seen(THREADS * EACH);
  std::atomic<std::uint64_t> taken{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < THREADS; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < EACH; ++i) q.push(numbered(t * EACH + i));
    });
    threads.emplace_back([&] {
      while (taken.load(std::memory_order_relaxed) < THREADS * EACH) {
        const status_t s = q.pop();
        if (s.is_done()) {
          ++seen[s.tag];
          ++taken;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  for (std::size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], 1) << i;
}
