#include "lci/data/stable_array.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

using lci::data::stable_array;

TEST(stable_array, find__is_null_before_growth_for_any_index) {
  stable_array<int> a;
  for (std::uint32_t i : {0u, 1u, 63u, 64u, 1u << 20, 0x80000000u, 0xffffffc0u, 0xffffffffu})
    EXPECT_EQ(a.find(i), nullptr) << i;
}

TEST(stable_array, grow_to__elements_start_as_zero_and_are_distinct) {
  stable_array<int, 4> a;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(a.grow_to(i), 0) << i;
    a.grow_to(i) = static_cast<int>(i) + 1;
  }
  for (std::uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(*a.find(i), static_cast<int>(i) + 1);
}

TEST(stable_array, grow_to__addresses_survive_growth) {
  stable_array<int, 2> a;
  int* const first = &a.grow_to(0);
  int* const third = &a.grow_to(2);
  a.grow_to(100000);
  EXPECT_EQ(a.find(0), first);
  EXPECT_EQ(a.find(2), third);
}

TEST(stable_array, grow_to__a_far_index_makes_only_its_own_chunk) {
  stable_array<int, 4> a;
  a.grow_to(100);
  EXPECT_EQ(a.find(3), nullptr);
  EXPECT_NE(a.find(100), nullptr);
}

TEST(stable_array, grow_to__threads_that_race_agree_on_one_chunk) {
  constexpr std::uint32_t N = 20000;
  stable_array<std::atomic<int>, 1> a;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&a] {
      for (std::uint32_t i = 0; i < N; ++i) a.grow_to(i).fetch_add(1, std::memory_order_relaxed);
    });
  for (auto& t : threads) t.join();
  for (std::uint32_t i = 0; i < N; ++i) ASSERT_EQ(a.find(i)->load(), 4) << i;
}
