#include "lci/comp/queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
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
  EXPECT_THROW(queue(with(LCRQ, 0)), lci::argument_error) << "also where it does not count";
  EXPECT_THROW(queue(with(static_cast<lci::attr_cq_type_t>(9), 4)), lci::argument_error);
}

TEST(queue, stress__every_status_comes_out_once) {
  constexpr std::uint64_t THREADS = 3, EACH = 10000;
  queue q(with(ARRAY, 16));
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
