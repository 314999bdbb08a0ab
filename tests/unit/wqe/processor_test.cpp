#include "lci/wqe/processor.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace {

using lci::wqe::word_at;

template <class T>
class word_at_test : public testing::Test {};
using widths = testing::Types<std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(word_at_test, widths);

TYPED_TEST(word_at_test, operations__change_the_word_itself) {
  TypeParam memory = 5;
  word_at<TypeParam> word(&memory);
  EXPECT_EQ(word.load(std::memory_order_acquire), TypeParam{5});
  EXPECT_EQ(word.fetch_add(3, std::memory_order_relaxed), TypeParam{5});
  word.raise_to(7, std::memory_order_release);
  EXPECT_EQ(memory, TypeParam{8});
  word.raise_to(~TypeParam{0}, std::memory_order_release);
  EXPECT_EQ(memory, static_cast<TypeParam>(~TypeParam{0}));
  EXPECT_FALSE(word.compare_exchange_strong(1, 2, std::memory_order_acquire));
  EXPECT_TRUE(word.compare_exchange_strong(~TypeParam{0}, 2, std::memory_order_acquire));
  EXPECT_EQ(memory, TypeParam{2});
  word.store(9, std::memory_order_release);
  EXPECT_EQ(memory, TypeParam{9});
}

TYPED_TEST(word_at_test, raise_to__of_many_threads_ends_at_the_largest) {
  TypeParam highest = 0, sum = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 1000; ++i) {
        word_at<TypeParam>(&highest).raise_to(i * 4 + t, std::memory_order_relaxed);
        word_at<TypeParam>(&sum).fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(highest, TypeParam{3999});
  EXPECT_EQ(sum, TypeParam{4000});
}

TEST(processor, clock__never_runs_backwards) {
  std::uint64_t last = lci::wqe::clock_ns();
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t now = lci::wqe::clock_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
