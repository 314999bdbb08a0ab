#include "lci/mem/region_cache.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/mem/region_cache_fixture.hpp"

namespace lci::test {
namespace {

using mem::cache_entry;
using mem::cache_limits;

// ---- finding ----

TEST(region_cache, acquire__second_time_and_parts_are_found) {
  cache_world w;
  const std::uint64_t first = w.touch(pages(0, 4));
  EXPECT_EQ(w.touch(pages(0, 4)), first);
  EXPECT_EQ(w.touch(pages(2, 1)), first);
  EXPECT_EQ(w.touch({page(1) + 17, page(1) + 18, mem::mem_kind::host, 0}), first);
  EXPECT_EQ(w.network.asked.size(), 1u);
}

TEST(region_cache, acquire__whole_pages_around_a_buffer) {
  cache_world w;
  w.touch({page(3) + 100, page(4) + 1, mem::mem_kind::host, 0});
  ASSERT_EQ(w.network.asked.size(), 1u);
  EXPECT_EQ(w.network.asked[0].begin, page(3));
  EXPECT_EQ(w.network.asked[0].end, page(5));
}

TEST(region_cache, try_hit__needs_a_first_time_in_this_thread) {
  cache_world w;
  EXPECT_EQ(w.cache.try_hit(pages(0, 1)), nullptr);
  w.touch(pages(0, 1));
  cache_entry* const e = w.cache.try_hit(pages(0, 1));
  ASSERT_NE(e, nullptr);
  w.cache.release(*e);
  std::thread([&] {
    EXPECT_EQ(w.cache.try_hit(pages(0, 1)), nullptr);
    w.touch(pages(0, 1));
    cache_entry* const mine = w.cache.try_hit(pages(0, 1));
    ASSERT_NE(mine, nullptr);
    w.cache.release(*mine);
  }).join();
  EXPECT_EQ(w.network.asked.size(), 1u);
}

TEST(region_cache, try_hit__sixteen_hot_ranges_of_many) {
  cache_world w;
  for (std::size_t i = 0; i < 2000; ++i) w.touch(pages(3 * i, 2));
  std::size_t hits = 0;
  for (int round = 0; round < 10; ++round) {
    for (std::size_t i = 0; i < 16; ++i) {
      cache_entry* const e = w.cache.try_hit(pages(3 * 7 * i, 2));
      if (e != nullptr) {
        ++hits;
        w.cache.release(*e);
      } else {
        w.touch(pages(3 * 7 * i, 2));
      }
    }
  }
  EXPECT_EQ(hits, 9u * 16);
  EXPECT_EQ(w.network.asked.size(), 2000u);
}

// ---- merging ----

TEST(region_cache, merge__overlap_becomes_one_and_the_old_one_goes) {
  cache_world w;
  const std::uint64_t first = w.touch(pages(0, 4));
  const std::uint64_t second = w.touch(pages(2, 4));
  EXPECT_NE(first, second);
  EXPECT_EQ(w.network.asked.back().begin, page(0));
  EXPECT_EQ(w.network.asked.back().end, page(6));
  EXPECT_FALSE(w.network.is_live(first));
  EXPECT_EQ(w.touch(pages(0, 6)), second);
  EXPECT_EQ(w.cache.count().live, 1u);
}

TEST(region_cache, merge__old_one_lives_while_used) {
  cache_world w;
  cache_entry& first = w.hold(pages(0, 4));
  w.touch(pages(2, 4));
  EXPECT_TRUE(w.network.is_live(first.handle));
  EXPECT_EQ(w.cache.count().dead, 1u);
  const std::uint64_t handle = first.handle;
  w.cache.release(first);
  EXPECT_FALSE(w.network.is_live(handle));
  EXPECT_EQ(w.cache.count().dead, 0u);
}

TEST(region_cache, merge__fills_a_gap_between_two) {
  cache_world w;
  w.touch(pages(0, 2));
  w.touch(pages(4, 2));
  w.touch(pages(1, 4));
  EXPECT_EQ(w.network.asked.back().begin, page(0));
  EXPECT_EQ(w.network.asked.back().end, page(6));
  EXPECT_EQ(w.network.live(), 1u);
}

// Chunk by chunk through memory: each page is registered log n times, not n times.
TEST(region_cache, merge__walking_through_memory_costs_n_log_n) {
  cache_world w;
  constexpr std::size_t N = 256;
  for (std::size_t i = 0; i < N; ++i) w.touch(pages(i, 1));
  std::size_t registered = 0;
  for (const auto& one : w.network.asked) registered += one.size() / PAGE;
  EXPECT_EQ(registered, N / 2 * 8 + N);  // each of 8 levels pays for half of the pages once more
  EXPECT_EQ(w.cache.count().live, 1u);
}

TEST(region_cache, merge__neighbours_stay_apart_above_the_limit) {
  cache_limits limits;
  limits.merged_bytes = 4 * PAGE;
  cache_world w(limits);
  w.touch(pages(0, 4));
  w.touch(pages(4, 4));
  EXPECT_EQ(w.cache.count().live, 2u);
  EXPECT_EQ(w.network.asked.back().size(), 4 * PAGE);
}

TEST(region_cache, merge__what_cannot_be_registered_together_is_registered_alone) {
  cache_world w;
  const std::uint64_t first = w.touch(pages(0, 4));
  w.network.refuses = [](const mem::cache_range& what) { return what.begin < page(1); };
  const std::uint64_t second = w.touch(pages(2, 4));
  EXPECT_NE(second, 0u);
  EXPECT_EQ(w.network.asked.back().begin, page(2));
  EXPECT_FALSE(w.network.is_live(first)) << "live entries would overlap";
  EXPECT_EQ(w.touch(pages(2, 4)), second);
}

TEST(region_cache, merge__never_lends_out_a_registration_of_less_access) {
  cache_world w;
  // Page 4 cannot be written: alone or with others, it can only be a source.
  w.network.is_reduced = [](const mem::cache_range& what) {
    return what.begin <= page(4) && what.end > page(4);
  };
  const std::uint64_t first = w.touch(pages(2, 2));
  const std::uint64_t source = w.touch(pages(4, 1));
  EXPECT_TRUE(w.network.is_live(first));
  EXPECT_FALSE(w.network.is_live(source));
  EXPECT_EQ(w.cache.count().live, 1u);
  EXPECT_NE(w.touch(pages(4, 1)), source);
}

// ---- unmapping ----

TEST(region_cache, unmap__is_not_found_again) {
  cache_world w;
  const std::uint64_t first = w.touch(pages(0, 4));
  w.news.tell(address(3), PAGE);
  EXPECT_EQ(w.cache.try_hit(pages(0, 1)), nullptr);
  const std::uint64_t second = w.touch(pages(0, 4));
  EXPECT_NE(first, second);
  EXPECT_FALSE(w.network.is_live(first));
}

TEST(region_cache, unmap__elsewhere_leaves_hits_alone) {
  cache_world w;
  w.touch(pages(0, 4));
  w.news.tell(address(1 << 20), 64 * PAGE);
  cache_entry* const e = w.cache.try_hit(pages(0, 4));
  ASSERT_NE(e, nullptr);
  w.cache.release(*e);
}

TEST(region_cache, unmap__near_by_costs_one_slow_look) {
  cache_world w;
  const std::uint64_t first = w.touch(pages(0, 4));
  w.news.tell(address(8), PAGE);
  EXPECT_EQ(w.cache.try_hit(pages(0, 4)), nullptr);
  EXPECT_EQ(w.touch(pages(0, 4)), first);
  cache_entry* const e = w.cache.try_hit(pages(0, 4));
  ASSERT_NE(e, nullptr);
  w.cache.release(*e);
}

TEST(region_cache, unmap__while_used_ends_with_the_last_user) {
  cache_world w;
  cache_entry& a = w.hold(pages(0, 4));
  cache_entry& b = w.hold(pages(1, 1));
  ASSERT_EQ(&a, &b);
  const std::uint64_t handle = a.handle;
  w.news.tell(address(0), 4 * PAGE);
  EXPECT_EQ(w.cache.count().dead, 1u);
  std::thread([&] { w.cache.release(a); }).join();  // in another thread than it began in
  EXPECT_TRUE(w.network.is_live(handle));
  w.cache.release(b);
  EXPECT_FALSE(w.network.is_live(handle));
}

TEST(region_cache, unmap__more_than_can_be_noted_makes_everything_stale) {
  cache_world w;
  const std::uint64_t first = w.touch(pages(0, 4));
  for (std::size_t i = 0; i <= mem::unmap_log::SLOTS; ++i) w.news.tell(address(8), PAGE);
  EXPECT_NE(w.touch(pages(0, 4)), first);
}

TEST(region_cache, unmap__of_a_range_larger_than_what_is_told_apart) {
  cache_world w;
  const std::uint64_t first = w.touch(pages(0, 4));
  w.news.tell(reinterpret_cast<const void*>(page(0) - (std::uintptr_t{1} << 36)),
              std::size_t{1} << 37);
  EXPECT_NE(w.touch(pages(0, 4)), first);
  const std::uint64_t wide = w.touch({page(0), page(0) + (std::uintptr_t{3} << 31), {}, 0});
  w.news.tell(address(500000), PAGE);
  EXPECT_NE(w.touch({page(0), page(0) + (std::uintptr_t{3} << 31), {}, 0}), wide);
}

// The neighbour that it was merged with goes while the network registers both.
TEST(region_cache, unmap__of_a_neighbour_while_registering_makes_it_serve_once) {
  cache_world w;
  w.touch(pages(0, 4));
  w.network.on_register = [&](const mem::cache_range&) { w.news.tell(address(0), PAGE); };
  cache_entry& e = w.hold(pages(2, 4));
  w.network.on_register = nullptr;
  EXPECT_EQ(w.cache.count().live, 0u);
  EXPECT_TRUE(w.network.is_live(e.handle));
  const std::uint64_t handle = e.handle;
  w.cache.release(e);
  EXPECT_FALSE(w.network.is_live(handle));
  EXPECT_NE(w.touch(pages(2, 4)), handle);
  EXPECT_EQ(w.network.asked.back().begin, page(2)) << "merged with what is gone";
}

TEST(region_cache, unmap__real_memory_mapped_again_at_the_same_address) {
  cache_world w;
  void* const where =
      mmap(nullptr, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(where, MAP_FAILED);
  const auto begin = reinterpret_cast<std::uintptr_t>(where);
  const mem::cache_range all{begin, begin + 4 * PAGE, mem::mem_kind::host, 0};
  const std::uint64_t first = w.touch(all);
  w.news.tell(where, 4 * PAGE);
  ASSERT_EQ(munmap(where, 4 * PAGE), 0);
  ASSERT_EQ(
      mmap(where, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
      where);
  EXPECT_NE(w.touch(all), first);
  munmap(where, 4 * PAGE);
}

}  // namespace
}  // namespace lci::test
