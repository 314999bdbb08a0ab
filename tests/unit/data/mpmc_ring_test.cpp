#include "lci/data/mpmc_ring.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/unit/data/mpmc_rounds.hpp"

using lci::data::mpmc_ring;
using lci::data::push_result;

TEST(mpmc_ring, try_pop__empty_ring) {
  mpmc_ring<int> ring(4);
  int out = 9;
  EXPECT_FALSE(ring.try_pop(out));
  EXPECT_EQ(out, 9);
}

TEST(mpmc_ring, capacity__is_rounded_up) {
  EXPECT_EQ(mpmc_ring<int>(5).capacity(), 8u);
  EXPECT_EQ(mpmc_ring<int>(8).capacity(), 8u);
  EXPECT_EQ(mpmc_ring<int>(1).capacity(), 1u);
}

TEST(mpmc_ring, try_push__full_ring_refuses_and_changes_nothing) {
  mpmc_ring<int> ring(4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ring.try_push(i), push_result::pushed);
  EXPECT_EQ(ring.try_push(99), push_result::full);
  EXPECT_EQ(ring.size(), 4u);
  int out;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(ring.try_pop(out));
    EXPECT_EQ(out, i);
  }
  EXPECT_FALSE(ring.try_pop(out));
}

TEST(mpmc_ring, order__is_kept_over_many_rounds) {
  for (std::size_t capacity : {1, 2, 8}) {
    mpmc_ring<int> ring(capacity);
    int pushed = 0, popped = 0, out;
    for (int i = 0; i < 1000; ++i) {
      while (ring.try_push(pushed) == push_result::pushed) ++pushed;
      EXPECT_EQ(ring.size(), capacity);
      for (int k = 0; k <= i % 3; ++k)
        if (ring.try_pop(out)) {
          ASSERT_EQ(out, popped++);
        }
    }
  }
}

TEST(mpmc_ring, close__refuses_pushes_and_keeps_elements) {
  mpmc_ring<int> ring(4);
  ring.try_push(1);
  EXPECT_FALSE(ring.is_exhausted());
  ring.close();
  EXPECT_EQ(ring.try_push(2), push_result::closed);
  EXPECT_FALSE(ring.is_exhausted());
  int out;
  EXPECT_TRUE(ring.try_pop(out));
  EXPECT_TRUE(ring.is_exhausted());
  EXPECT_FALSE(ring.try_pop(out));
}

TEST(mpmc_ring, is_exhausted__open_ring_never_is) {
  mpmc_ring<int> ring(4);
  EXPECT_FALSE(ring.is_exhausted());
}

// A status has 40 bytes: its cell must be one cache line, so that neighbours do not share it.
TEST(mpmc_ring, cell__element_of_40_bytes_is_copied_whole) {
  struct big {
    std::uint64_t word[5];
  };
  mpmc_ring<big> ring(2);
  ring.try_push({{1, 2, 3, 4, 5}});
  big out;
  ASSERT_TRUE(ring.try_pop(out));
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(out.word[i], i + 1);
}

TEST(mpmc_ring, stress__nothing_lost_doubled_or_reordered) {
  mpmc_ring<std::uint64_t> ring(64);
  lci::test::expect_each_once_in_order(
      [&](std::uint64_t value) {
        while (ring.try_push(value) != push_result::pushed) std::this_thread::yield();
      },
      [&](std::uint64_t& out) { return ring.try_pop(out); });
}
