// What the registration cache does when it is full, when the network refuses, without news of
// unmapping, for GPU memory, and with threads that come and go.
#include <gtest/gtest.h>

#include <thread>

#include "lci/errors.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/support/scoped_env.hpp"
#include "tests/unit/mem/region_cache_fixture.hpp"

namespace lci::test {
namespace {

using mem::cache_entry;
using mem::cache_limits;
using mem::region_cache;

cache_limits limit_of(std::size_t bytes, std::size_t count) {
  cache_limits out;
  out.bytes = bytes;
  out.count = count;
  return out;
}

// ---- limits ----

TEST(region_cache, limits__count_evicts_the_oldest) {
  cache_world w(limit_of(1 << 30, 3));
  const std::uint64_t a = w.touch(pages(0, 1));
  const std::uint64_t b = w.touch(pages(10, 1));
  const std::uint64_t c = w.touch(pages(20, 1));
  const std::uint64_t d = w.touch(pages(30, 1));
  EXPECT_FALSE(w.network.is_live(a));
  for (const std::uint64_t kept : {b, c, d}) EXPECT_TRUE(w.network.is_live(kept));
  EXPECT_EQ(w.cache.count().evicted, 1u);
}

TEST(region_cache, limits__bytes_evict_the_oldest) {
  cache_world w(limit_of(8 * PAGE, 100));
  const std::uint64_t a = w.touch(pages(0, 4));
  const std::uint64_t b = w.touch(pages(10, 4));
  const std::uint64_t c = w.touch(pages(20, 4));
  EXPECT_FALSE(w.network.is_live(a));
  EXPECT_TRUE(w.network.is_live(b));
  EXPECT_TRUE(w.network.is_live(c));
  EXPECT_EQ(w.cache.count().bytes, 8 * PAGE);
}

TEST(region_cache, limits__what_was_hit_is_spared) {
  cache_world w(limit_of(1 << 30, 3));
  const std::uint64_t a = w.touch(pages(0, 1));
  const std::uint64_t b = w.touch(pages(10, 1));
  w.touch(pages(20, 1));
  EXPECT_EQ(w.touch(pages(0, 1)), a);
  w.touch(pages(30, 1));
  EXPECT_TRUE(w.network.is_live(a));
  EXPECT_FALSE(w.network.is_live(b));
}

TEST(region_cache, limits__what_is_used_stays) {
  cache_world w(limit_of(1 << 30, 1));
  cache_entry& a = w.hold(pages(0, 1));
  cache_entry& b = w.hold(pages(10, 1));
  EXPECT_TRUE(w.network.is_live(a.handle));
  EXPECT_TRUE(w.network.is_live(b.handle));
  w.cache.release(a);
  w.cache.release(b);
  w.touch(pages(20, 1));
  w.touch(pages(30, 1));
  EXPECT_EQ(w.network.live(), 1u);
}

TEST(region_cache, limits__more_than_the_limit_at_once_is_registered_all_the_same) {
  cache_world w(limit_of(PAGE, 10));
  const std::uint64_t a = w.touch(pages(0, 4));
  EXPECT_TRUE(w.network.is_live(a)) << "in use when the limit was looked at";
  const std::uint64_t b = w.touch(pages(10, 1));
  EXPECT_FALSE(w.network.is_live(a));
  EXPECT_TRUE(w.network.is_live(b));
}

TEST(region_cache, limits__from_the_environment) {
  {
    scoped_env given;
    given.set("LCI_REG_CACHE_BYTES", "3M");
    given.set("LCI_REG_CACHE_COUNT", "17");
    EXPECT_EQ(cache_limits::from_environment().bytes, std::size_t{3} << 20);
    EXPECT_EQ(cache_limits::from_environment().count, 17u);
  }
  {
    scoped_env given;
    given.set("LCI_REG_CACHE_COUNT", "2M");
    EXPECT_EQ(cache_limits::from_environment().count, mem::cache_thread::ENTRIES / 2)
        << "with more, the rest would be refused where nothing is evicted";
  }
  EXPECT_GT(cache_limits::from_environment().bytes, std::size_t{64} << 20);
  scoped_env nonsense;
  nonsense.set("LCI_REG_CACHE_COUNT", "many");
  EXPECT_THROW(cache_limits::from_environment(), argument_error);
}

// ---- failing ----

TEST(region_cache, failure__is_told_and_leaves_nothing) {
  cache_world w;
  w.touch(pages(10, 1));
  w.network.fail_next = 1;
  region_cache::failure why;
  EXPECT_EQ(w.cache.acquire(pages(0, 1), why), nullptr);
  EXPECT_EQ(why.error, EIO);
  EXPECT_EQ(why.why_not, "as the test wants it");
  EXPECT_EQ(w.cache.count().live, 1u);
  EXPECT_NE(w.touch(pages(0, 1)), 0u);
}

// A walk over pages, merging on its way, with the n-th call of the network failing.
TEST(region_cache, failure__of_any_call_loses_nothing) {
  for (int n = 1; n <= 40; ++n) {
    cache_world w;
    w.network.fail_next = n;
    w.network.fail_with = n % 2 == 0 ? ENOMEM : EFAULT;
    int failed = 0;
    for (std::size_t i = 0; i < 20; ++i) {
      region_cache::failure why;
      cache_entry* const e = w.cache.acquire(pages(i * 3 % 20, 2), why);
      failed += e == nullptr;
      if (e != nullptr) w.cache.release(*e);
    }
    EXPECT_LE(failed, 1) << "n = " << n;
    const auto now = w.cache.count();
    EXPECT_EQ(now.dead, 0u) << "n = " << n;
    EXPECT_EQ(now.live, w.network.live()) << "n = " << n;
  }
}

TEST(region_cache, failure__by_an_exception_leaves_the_cache_usable) {
  cache_world w;
  w.network.on_register = [](const mem::cache_range&) { throw std::bad_alloc(); };
  region_cache::failure why;
  EXPECT_THROW(w.cache.acquire(pages(0, 1), why), std::bad_alloc);
  w.network.on_register = nullptr;
  EXPECT_NE(w.touch(pages(0, 1)), 0u);
}

TEST(region_cache, full__evicts_and_tries_again) {
  for (const int error : {ENOMEM, ENOSPC}) {
    cache_world w;
    w.network.capacity = 8;
    w.network.full_error = error;
    for (std::size_t i = 0; i < 100; ++i) EXPECT_NE(w.touch(pages(10 * i, 1)), 0u);
    EXPECT_LE(w.network.live(), 8u);
  }
}

TEST(region_cache, full__of_used_ones_is_an_error) {
  cache_world w;
  w.network.capacity = 2;
  cache_entry& a = w.hold(pages(0, 1));
  cache_entry& b = w.hold(pages(10, 1));
  region_cache::failure why;
  EXPECT_EQ(w.cache.acquire(pages(20, 1), why), nullptr);
  EXPECT_EQ(why.error, ENOMEM);
  w.cache.release(a);
  w.cache.release(b);
  EXPECT_NE(w.touch(pages(20, 1)), 0u);
}

TEST(region_cache, full__for_any_other_reason_is_not_tried_again) {
  cache_world w;
  w.touch(pages(10, 1));
  w.network.full_error = EINVAL;
  w.network.capacity = 1;
  region_cache::failure why;
  EXPECT_EQ(w.cache.acquire(pages(0, 1), why), nullptr);
  EXPECT_EQ(w.network.asked.size(), 2u);
  EXPECT_EQ(w.cache.count().live, 1u);
}

// ---- without news ----

TEST(region_cache, without_news__host_memory_serves_once) {
  for (const bool has_source : {false, true}) {
    fake_network network;
    fake_news silent;
    silent.why_not = "no hook";
    region_cache cache(network, {}, has_source ? &silent : nullptr);
    EXPECT_FALSE(cache.why_no_news().empty());
    for (int i = 0; i < 2; ++i) {
      region_cache::failure why;
      cache_entry* const e = cache.acquire(pages(0, 1), why);
      ASSERT_NE(e, nullptr);
      EXPECT_TRUE(network.is_live(e->handle));
      cache.release(*e);
      EXPECT_EQ(network.live(), 0u);
    }
    EXPECT_EQ(network.asked.size(), 2u);
  }
}

// ---- GPU memory ----

TEST(region_cache, device__exact_bytes_and_no_news_needed) {
  fake_network network;
  region_cache cache(network, {}, nullptr);
  region_cache::failure why;
  for (int i = 0; i < 3; ++i) cache.release(*cache.acquire(device_bytes(256, 1000, 7), why));
  ASSERT_EQ(network.asked.size(), 1u);
  EXPECT_EQ(network.asked[0].begin, page(0) + 256);
  EXPECT_EQ(network.asked[0].size(), 1000u);
}

TEST(region_cache, device__another_buffer_id_is_other_memory) {
  cache_world w;
  const std::uint64_t old = w.touch(device_bytes(0, 1000, 7));
  EXPECT_EQ(w.cache.try_hit(device_bytes(0, 1000, 8)), nullptr);
  const std::uint64_t now = w.touch(device_bytes(0, 1000, 8));
  EXPECT_NE(now, old);
  EXPECT_FALSE(w.network.is_live(old));
  EXPECT_EQ(w.touch(device_bytes(10, 100, 8)), now);
}

TEST(region_cache, device__merges_within_an_allocation_only) {
  cache_world w;
  w.touch(device_bytes(0, 1000, 7));
  w.touch(device_bytes(1000, 1000, 8));
  EXPECT_EQ(w.network.asked.back().size(), 1000u);
  EXPECT_EQ(w.cache.count().live, 2u);
  w.touch(device_bytes(1500, 1000, 8));
  EXPECT_EQ(w.network.asked.back().begin, page(0) + 1000);
  EXPECT_EQ(w.network.asked.back().size(), 1500u);
}

TEST(region_cache, device__without_an_id_serves_once) {
  cache_world w;
  const std::uint64_t first = w.touch(device_bytes(0, 1000, 0));
  EXPECT_FALSE(w.network.is_live(first));
  EXPECT_NE(w.touch(device_bytes(0, 1000, 0)), first);
}

// ---- threads ----

TEST(region_cache, threads__a_use_outlives_its_thread) {
  cache_world w;
  cache_entry* e = nullptr;
  std::thread([&] { e = &w.hold(pages(0, 1)); }).join();
  w.news.tell(address(0), PAGE);
  EXPECT_EQ(w.cache.count().dead, 1u);
  std::thread([&] { w.touch(pages(10, 1)); }).join();  // has the number of the first one
  EXPECT_TRUE(w.network.is_live(e->handle));
  w.cache.release(*e);
  EXPECT_EQ(w.cache.count().dead, 0u);
  EXPECT_EQ(w.network.live(), 1u);
}

// More threads at once than have numbers: these count together.
TEST(region_cache, threads__beyond_the_numbered_ones) {
  cache_world w;
  std::vector<std::thread> all;
  std::atomic<int> inside{0};
  constexpr int MANY = base::MAX_THREADS + 20;
  for (int i = 0; i < MANY; ++i) {
    all.emplace_back([&] {
      cache_entry& e = w.hold(pages(0, 1));
      inside.fetch_add(1, std::memory_order_seq_cst);
      while (inside.load(std::memory_order_seq_cst) < MANY) std::this_thread::yield();
      EXPECT_TRUE(w.network.is_live(e.handle));
      w.cache.release(e);
    });
  }
  for (std::thread& one : all) one.join();
  w.news.tell(address(0), PAGE);
  EXPECT_EQ(w.cache.count().dead, 0u);
  EXPECT_EQ(w.network.live(), 0u);
}

TEST(region_cache, threads__two_that_want_the_same_register_it_once) {
  if (!has_race_points) GTEST_SKIP() << RACE_POINTS_MISSING;
  cache_world w;
  std::thread other;
  const race_hook hook(
      "region_cache.make.before_registering",
      [&] { other = std::thread([&] { w.touch(pages(0, 4)); }); }, 1);
  w.touch(pages(0, 4));
  ASSERT_EQ(hook.hits(), 1);
  other.join();
  EXPECT_EQ(w.network.asked.size(), 1u);
}

TEST(region_cache, destructor__deregisters_everything) {
  fake_network network;
  fake_news news;
  {
    region_cache cache(network, {}, &news);
    region_cache::failure why;
    for (std::size_t i = 0; i < 10; ++i) cache.release(*cache.acquire(pages(3 * i, 1), why));
    ASSERT_NE(cache.acquire(pages(0, 1), why), nullptr);
    news.tell(address(0), PAGE);
    EXPECT_EQ(cache.count().dead, 1u);
  }
  EXPECT_EQ(network.live(), 0u);
  EXPECT_EQ(news.listener, nullptr);
}

}  // namespace
}  // namespace lci::test
