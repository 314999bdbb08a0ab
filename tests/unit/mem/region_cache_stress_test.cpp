// Four threads register, use, unmap and map at random, against a model that is slow and right: each
// page has a number that changes when other memory is mapped there; a registration remembers the
// numbers of its pages, as a card does; whoever uses one compares them with those of now.
// Neighbours are unmapped by other threads at any time, also while the network registers both.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <random>
#include <thread>

#include "lci/mem/region_cache.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"

namespace lci::test {
namespace {

constexpr std::size_t PAGES_IN_BLOCK = 4;
constexpr std::size_t BLOCKS = 128;
constexpr std::size_t PAGES = PAGES_IN_BLOCK * BLOCKS;
constexpr std::size_t PAGE_SIZE = 4096;
constexpr std::uintptr_t BASE = std::uintptr_t{1} << 40;
constexpr int THREADS = 4;
constexpr int STEPS = (lci::test::IS_SANITIZED ? 200000 : 1000000) / THREADS;

// The address space. A number is odd while nothing is mapped.
std::array<std::atomic<std::uint32_t>, PAGES> mapped;

struct registration {
  std::size_t first = 0;
  std::vector<std::uint32_t> numbers;  // of the pages, when it was made
  std::atomic<bool> is_live{true};
};

class pinning_network final : public mem::cache_registrar {
 public:
  answer register_range(const mem::cache_range& what) override {
    const answer out = pin(what);
    // Others get in between pinning and the answer, as a system call lets them. Not each time:
    // where the processors are busy a yield takes milliseconds.
    thread_local unsigned turn = 0;
    if (++turn % 16 == 0) std::this_thread::yield();
    return out;
  }
  answer pin(const mem::cache_range& what) {
    answer out;
    const std::lock_guard lock(mutex_);
    if (live_ >= MOST) out.error = ENOMEM;
    if (++attempts_ % 997 == 0) out.error = EIO;
    if (out.error != 0) return out;
    registration& made = all_.emplace_back();
    made.first = (what.begin - BASE) / PAGE_SIZE;
    for (std::size_t i = 0; i < what.size() / PAGE_SIZE; ++i) {
      made.numbers.push_back(mapped[made.first + i].load(std::memory_order_acquire));
      if (made.numbers.back() % 2 != 0) out.error = EFAULT;
    }
    if (out.error != 0) {
      all_.pop_back();
      return out;
    }
    ++live_;
    out.handle = reinterpret_cast<std::uint64_t>(&made);
    return out;
  }
  void deregister_range(std::uint64_t handle) noexcept override {
    const std::lock_guard lock(mutex_);
    auto& what = *reinterpret_cast<registration*>(handle);
    EXPECT_TRUE(what.is_live.exchange(false, std::memory_order_acq_rel)) << "ended twice";
    --live_;
  }
  std::size_t live() {
    const std::lock_guard lock(mutex_);
    return live_;
  }

 private:
  static constexpr std::size_t MOST = 40;
  std::mutex mutex_;
  std::deque<registration> all_;  // never shortened, so that a use after the end is seen
  std::size_t live_ = 0;
  std::uint64_t attempts_ = 0;
};

class direct_news final : public mem::unmap_source {
 public:
  std::string start(mem::unmap_listener& to) override {
    listener = &to;
    return "";
  }
  void stop(mem::unmap_listener&) noexcept override {}
  mem::unmap_listener* listener = nullptr;
};

struct use {
  mem::cache_entry* entry = nullptr;
  std::size_t first = 0, count = 0;  // pages
};

// The program's part of the bargain: what is used is not unmapped. -1: being unmapped.
std::array<std::atomic<int>, BLOCKS> users;

bool enter(std::size_t block) {
  int now = users[block].load(std::memory_order_relaxed);
  while (now >= 0) {
    if (users[block].compare_exchange_weak(now, now + 1, std::memory_order_acquire)) return true;
  }
  return false;
}
void leave(std::size_t block) { users[block].fetch_sub(1, std::memory_order_release); }

class stress {
 public:
  void run(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<use> mine;
    for (int i = 0; i < STEPS; ++i) {
      const unsigned what = random() % 100;
      if (what < 3)
        remap(random() % BLOCKS, random() % PAGES_IN_BLOCK);
      else if (what < 5)
        swap_uses(mine);
      else if (what < 60 || mine.empty())
        begin(mine, random);
      else
        end(mine, random() % mine.size());
      while (mine.size() > 4) end(mine, 0);
    }
    while (!mine.empty()) end(mine, 0);
  }
  void end_all() {
    while (!passed_.empty()) end(passed_, 0);
  }

  pinning_network network;
  direct_news news;
  mem::cache_limits limits{std::size_t{200} * PAGE_SIZE, 32, std::size_t{16} * PAGE_SIZE};
  mem::region_cache cache{network, limits, &news};
  std::atomic<std::uint64_t> uses{0}, unmaps{0}, refused{0};

 private:
  // Half of the uses go to eight blocks, so that there are hits.
  void begin(std::vector<use>& mine, std::mt19937& random) {
    const std::size_t block = random() % (random() % 2 == 0 ? 8 : BLOCKS);
    if (!enter(block)) return;
    use one;
    const std::size_t skip = random() % PAGES_IN_BLOCK;
    one.first = block * PAGES_IN_BLOCK + skip;
    one.count = 1 + random() % (PAGES_IN_BLOCK - skip);
    const std::uintptr_t at = BASE + one.first * PAGE_SIZE;
    mem::region_cache::failure why;
    one.entry =
        cache.acquire({at + 8, at + one.count * PAGE_SIZE - 8, mem::mem_kind::host, 0}, why);
    if (one.entry == nullptr) {
      refused.fetch_add(1, std::memory_order_relaxed);
      leave(block);
      return;
    }
    uses.fetch_add(1, std::memory_order_relaxed);
    check(one);
    mine.push_back(one);
  }
  void end(std::vector<use>& mine, std::size_t which) {
    const use one = mine[which];
    check(one);
    cache.release(*one.entry);
    leave(one.first / PAGES_IN_BLOCK);
    mine[which] = mine.back();
    mine.pop_back();
  }
  // Uses end in other threads than they began in.
  void swap_uses(std::vector<use>& mine) {
    const std::lock_guard lock(mutex_);
    std::swap(mine, passed_);
  }
  void remap(std::size_t block, std::size_t skip) {
    int nobody = 0;
    if (!users[block].compare_exchange_strong(nobody, -1, std::memory_order_acquire)) return;
    const std::size_t first = block * PAGES_IN_BLOCK + skip;
    news.listener->on_unmap(BASE + first * PAGE_SIZE, (PAGES_IN_BLOCK - skip) * PAGE_SIZE);
    for (int half = 0; half < 2; ++half) {
      for (std::size_t i = first; i < (block + 1) * PAGES_IN_BLOCK; ++i)
        mapped[i].fetch_add(1, std::memory_order_acq_rel);
    }
    unmaps.fetch_add(1, std::memory_order_relaxed);
    users[block].store(0, std::memory_order_release);
  }
  static void check(const use& one) {
    const auto& made = *reinterpret_cast<const registration*>(one.entry->handle);
    ASSERT_TRUE(made.is_live.load(std::memory_order_acquire)) << "used after its end";
    for (std::size_t i = one.first; i < one.first + one.count; ++i) {
      ASSERT_LT(i - made.first, made.numbers.size());
      ASSERT_EQ(made.numbers[i - made.first], mapped[i].load(std::memory_order_acquire))
          << "page " << i << " is other memory now";
    }
  }

  std::mutex mutex_;
  std::vector<use> passed_;
};

TEST(region_cache_stress, random_uses__see_the_memory_of_now) {
  stress it;
  const unsigned seed = static_cast<unsigned>(test_seed());
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < THREADS; ++t)
    threads.emplace_back([&it, seed, t] { it.run(seed + 7919 * t); });
  for (std::thread& one : threads) one.join();
  it.end_all();
  const auto now = it.cache.count();
  EXPECT_EQ(now.dead, 0u);
  EXPECT_EQ(now.live, it.network.live());
  EXPECT_GT(it.unmaps.load(), static_cast<std::uint64_t>(STEPS) / 200);
  EXPECT_GT(it.uses.load(), static_cast<std::uint64_t>(STEPS));
  std::printf("%llu uses, %llu registrations, %llu evicted, %llu unmaps, %llu refused\n",
              static_cast<unsigned long long>(it.uses.load()),
              static_cast<unsigned long long>(now.made),
              static_cast<unsigned long long>(now.evicted),
              static_cast<unsigned long long>(it.unmaps.load()),
              static_cast<unsigned long long>(it.refused.load()));
}

// The narrow window: one thread counts itself in while another one ends what it found.
TEST(region_cache_stress, one_range__is_not_ended_under_a_user) {
  pinning_network network;
  direct_news news;
  mem::region_cache cache(network, {}, &news);
  const mem::cache_range want{BASE, BASE + PAGE_SIZE, mem::mem_kind::host, 0};
  std::atomic<bool> is_over{false};
  std::uint64_t hits = 0, late = 0;
  std::thread user([&] {
    while (!is_over.load(std::memory_order_relaxed)) {
      mem::region_cache::failure why;
      mem::cache_entry* const e = cache.acquire(want, why);
      if (e == nullptr) continue;
      const auto& made = *reinterpret_cast<const registration*>(e->handle);
      ++hits;
      for (int i = 0; i < 20; ++i) late += !made.is_live.load(std::memory_order_relaxed);
      cache.release(*e);
    }
  });
  for (int i = 0; i < (LCI_TSAN ? 10000 : 200000); ++i) {
    news.listener->on_unmap(BASE, PAGE_SIZE);
    cache.count();
  }
  is_over.store(true, std::memory_order_relaxed);
  user.join();
  EXPECT_EQ(late, 0u) << "of " << hits;
  EXPECT_EQ(cache.count().dead, 0u);
}

}  // namespace
}  // namespace lci::test
