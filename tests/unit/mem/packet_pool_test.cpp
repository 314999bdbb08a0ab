// A packet has one owner at any time and comes home on every way.
#include "lci/mem/packet_pool.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "lci/base/owned.hpp"
#include "lci/base/thread_id.hpp"
#include "lci/errors.hpp"
#include "tests/support/in_thread.hpp"
#include "tests/support/sizes.hpp"

namespace lci::mem {
namespace {

using lci::test::in_thread;
using lci::test::MIB;

// A pool, and a second mapping of its arena that plays the peer.
class pool_test : public testing::Test {
 protected:
  void SetUp() override {
    view_ = mmap(nullptr, arena_.reserved(), PROT_READ | PROT_WRITE, MAP_SHARED, arena_.fd(), 0);
    ASSERT_NE(view_, MAP_FAILED);
  }
  void TearDown() override { munmap(view_, arena_.reserved()); }

  // The packet as the borrower sees it.
  packet* at_peer(packet* p) {
    return reinterpret_cast<packet*>(static_cast<std::byte*>(view_) + arena_.offset_of(p));
  }
  std::vector<packet*> get_all(packet_pool& pool) {
    std::vector<packet*> all;
    while (packet* const p = pool.get()) all.push_back(p);
    return all;
  }

  arena arena_{256 * MIB};
  void* view_ = nullptr;
};
using get__pool = pool_test;
using put__pool = pool_test;
using lend__peer = pool_test;
using steal__caches = pool_test;
using checked__pointers = pool_test;
using packet_pool__threads = pool_test;

TEST_F(get__pool, constructor_refuses_nonsense) {
  EXPECT_THROW(packet_pool(arena_, 64, 10), argument_error);
  EXPECT_THROW(packet_pool(arena_, ~std::size_t{0}, 10), argument_error);
  EXPECT_EQ(packet_pool(arena_, 129, 1).payload_size(), 128u) << "rounded up to lines";
}

TEST_F(get__pool, packets_are_out_distinct_and_no_more_than_the_limit) {
  packet_pool pool(arena_, 512, 300);
  EXPECT_EQ(pool.allocated(), 0u);
  const auto all = get_all(pool);
  EXPECT_EQ(std::set<packet*>(all.begin(), all.end()).size(), 300u);
  EXPECT_EQ(pool.outstanding(), 300u);
  for (packet* const p : all) {
    EXPECT_EQ(p->state.load(), packet_state::out);
    EXPECT_EQ(p->pool, &pool);
    EXPECT_EQ(p->capacity, pool.payload_size());
    std::memset(p->payload(), 0xab, p->capacity);
  }
  EXPECT_EQ(pool.get(), nullptr);
  for (packet* const p : all) pool.put(p);
  EXPECT_EQ(pool.outstanding(), 0u);
  EXPECT_EQ(get_all(pool).size(), 300u);
}

TEST_F(get__pool, a_pool_of_no_packets_is_always_empty) {
  packet_pool pool(arena_, 8192, 0);
  EXPECT_EQ(pool.get(), nullptr);
  EXPECT_EQ(pool.allocated(), 0u);
}

TEST_F(get__pool, last_put_is_first_got) {
  packet_pool pool(arena_, 512, 300);
  packet* const a = pool.get();
  packet* const b = pool.get();
  pool.put(a);
  pool.put(b);
  EXPECT_EQ(pool.get(), b);
  EXPECT_EQ(pool.get(), a);
}

TEST_F(get__pool, grows_only_as_needed) {
  packet_pool pool(arena_, 8192, 65536);
  pool.put(pool.get());
  EXPECT_LE(pool.allocated(), 64u);
  EXPECT_LE(arena_.committed(), 2 * MIB);
}

TEST_F(get__pool, an_exhausted_arena_is_null_until_something_comes_home) {
  arena tiny(2 * MIB);
  packet_pool pool(tiny, 64 << 10, 1000);
  const auto all = get_all(pool);
  ASSERT_FALSE(all.empty());
  EXPECT_LT(all.size(), 33u);
  pool.put(all[0]);
  EXPECT_EQ(pool.get(), all[0]);
}

TEST_F(put__pool, surplus_of_one_thread_reaches_others_through_the_store) {
  packet_pool pool(arena_, 512, 200);
  const auto all = get_all(pool);
  for (packet* const p : all) pool.put(p);
  in_thread([&] {
    // Not all lie in the first thread's cache: some come without taking anything from it.
    for (int i = 0; i < 100; ++i) ASSERT_NE(pool.get(), nullptr);
  });
  EXPECT_EQ(pool.outstanding(), 100u);
}

TEST_F(put__pool, twice_is_ignored_and_counted) {
#ifdef LCI_DEBUG
  GTEST_SKIP() << "debug builds abort";
#endif
  packet_pool pool(arena_, 512, 4);
  packet* const p = pool.get();
  pool.put(p);
  pool.put(p);
  EXPECT_EQ(pool.misuses(), 1u);
  EXPECT_EQ(get_all(pool).size(), 4u) << "the packet was not in the pool twice";
}

TEST_F(lend__peer, returned_packet_is_found_by_reclaim_and_by_get) {
  packet_pool pool(arena_, 512, 4);
  packet* const a = pool.get();
  ASSERT_TRUE(pool.lend(a));
  EXPECT_EQ(at_peer(a)->state.load(), packet_state::lent);
  EXPECT_EQ(pool.lent(), 1u);
  EXPECT_EQ(pool.reclaim(), 0u);
  // The peer's arena is another one: what it does not contain is marked returned.
  arena peer(4 * MIB);
  release_packet(peer, at_peer(a));
  EXPECT_EQ(pool.reclaim(), 1u);
  EXPECT_EQ(pool.lent(), 0u);
  EXPECT_EQ(pool.get(), a);
  pool.put(a);

  const auto all = get_all(pool);
  ASSERT_TRUE(pool.lend(all[2]));
  EXPECT_EQ(pool.get(), nullptr);
  release_packet(peer, at_peer(all[2]));
  EXPECT_EQ(pool.get(), all[2]);
}

TEST_F(lend__peer, own_packet_goes_home_by_release_packet) {
  packet_pool pool(arena_, 512, 4);
  release_packet(arena_, pool.get());
  EXPECT_EQ(pool.outstanding(), 0u);
}

TEST_F(lend__peer, no_more_than_half_the_limit) {
  for (const std::size_t limit : {1, 2, 3, 10, 64, 301}) {
    packet_pool pool(arena_, 512, limit);
    std::size_t lent = 0;
    const auto all = get_all(pool);
    for (packet* const p : all) {
      const bool ok = pool.lend(p);
      lent += ok;
      EXPECT_EQ(p->state.load(), ok ? packet_state::lent : packet_state::out);
    }
    EXPECT_EQ(lent, limit / 2);
    arena peer(4 * MIB);
    for (packet* const p : all) {
      if (p->state.load() == packet_state::lent) release_packet(peer, at_peer(p));
    }
    // All are back or returned: the right to lend is there again.
    for (packet* const p : all) {
      if (p->state.load() == packet_state::out) pool.put(p);
    }
    lent = 0;
    for (packet* const p : get_all(pool)) lent += pool.lend(p);
    EXPECT_EQ(lent, limit / 2);
    EXPECT_EQ(pool.lent(), lent);
  }
}

TEST_F(lend__peer, a_late_return_does_not_hide_those_behind_it) {
  packet_pool pool(arena_, 512, 100);
  const auto all = get_all(pool);
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(pool.lend(all[i]));
  arena peer(4 * MIB);
  release_packet(peer, at_peer(all[39]));
  EXPECT_EQ(pool.get(), all[39]);
}

TEST_F(lend__peer, recall_takes_back_what_a_dead_borrower_holds) {
  packet_pool pool(arena_, 512, 100);
  const auto all = get_all(pool);
  for (int i = 0; i < 20; ++i) {
    all[i]->note = i % 2;
    ASSERT_TRUE(pool.lend(all[i]));
  }
  in_thread([&] {
    const auto more = pool.recall(0);
    EXPECT_EQ(more, 10u) << "also those that another thread has lent";
  });
  EXPECT_EQ(pool.lent(), 10u);
  EXPECT_EQ(pool.recall(0), 0u);
  EXPECT_EQ(pool.recall(1), 10u);
  EXPECT_EQ(get_all(pool).size(), 20u);
}

TEST_F(steal__caches, packets_in_another_threads_cache_are_found) {
  packet_pool pool(arena_, 512, 10);
  const auto all = get_all(pool);
  for (packet* const p : all) pool.put(p);
  in_thread([&] { EXPECT_EQ(get_all(pool).size(), 10u); });
  EXPECT_EQ(pool.get(), nullptr);
}

TEST_F(steal__caches, packets_returned_to_another_thread_are_found) {
  packet_pool pool(arena_, 512, 10);
  const auto all = get_all(pool);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pool.lend(all[i]));
  arena peer(4 * MIB);
  for (int i = 0; i < 5; ++i) release_packet(peer, at_peer(all[i]));
  in_thread([&] {
    std::size_t got = 0;
    const std::uint64_t until = base::cpu_ticks() + 1000 * base::ticks_per_ms();
    while (got < 5 && base::cpu_ticks() < until) got += pool.get() != nullptr;
    EXPECT_EQ(got, 5u);
  });
}

TEST_F(steal__caches, the_robbed_thread_goes_on_at_once) {
  packet_pool pool(arena_, 512, 10);
  const auto all = get_all(pool);
  for (packet* const p : all) pool.put(p);
  packet* stolen = nullptr;
  in_thread([&] {
    stolen = pool.get();
    ASSERT_NE(stolen, nullptr);
  });
  pool.put(stolen);
  EXPECT_EQ(get_all(pool).size(), 10u);
}

TEST_F(steal__caches, a_thread_that_ended_leaves_its_packets_to_the_next) {
  packet_pool pool(arena_, 512, 40);
  in_thread([&] {
    for (packet* const p : get_all(pool)) pool.put(p);
  });
  in_thread([&] { EXPECT_EQ(get_all(pool).size(), 40u); });
}

TEST_F(steal__caches, threads_beyond_the_ceiling_use_the_store) {
  packet_pool pool(arena_, 512, 400);
  constexpr int count = base::MAX_THREADS + 2;
  std::barrier all_here(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      const bool overflow = base::thread_id() == base::OVERFLOW_THREAD;
      all_here.arrive_and_wait();
      if (!overflow) return;
      packet* const p = pool.get();
      ASSERT_NE(p, nullptr);
      EXPECT_FALSE(pool.lend(p)) << "no cache to remember it in";
      EXPECT_EQ(p->state.load(), packet_state::out);
      EXPECT_EQ(pool.reclaim(), 0u);
      pool.put(p);
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(pool.outstanding(), 0u);
  EXPECT_GT(pool.allocated(), 0u);
}

TEST_F(checked__pointers, only_payloads_of_packets_that_are_out) {
  packet_pool pool(arena_, 512, 10);
  packet* const p = pool.get();
  EXPECT_EQ(packet_pool::checked(arena_, p->payload()), p);
  int stack = 0;
  EXPECT_EQ(packet_pool::checked(arena_, nullptr), nullptr);
  EXPECT_EQ(packet_pool::checked(arena_, &stack), nullptr);
  EXPECT_EQ(packet_pool::checked(arena_, p), nullptr);
  EXPECT_EQ(packet_pool::checked(arena_, p->payload() + 8), nullptr);
  EXPECT_EQ(packet_pool::checked(arena_, p->payload() + 64), nullptr);
  EXPECT_EQ(packet_pool::checked(arena_, arena_.at(0)), nullptr);
  EXPECT_EQ(packet_pool::checked(arena_, arena_.at(64)), nullptr);
  EXPECT_EQ(packet_pool::checked(arena_, arena_.at(arena_.committed() + 64)), nullptr);
  EXPECT_EQ(packet_pool::checked(arena_, arena_.at(arena_.reserved() - 64)), nullptr);
  EXPECT_EQ(packet_pool::checked(arena_, at_peer(p)->payload()), nullptr) << "another mapping";
  void* const payload = p->payload();
  pool.put(p);
  EXPECT_EQ(packet_pool::checked(arena_, payload), nullptr) << "put already";
}

TEST_F(packet_pool__threads, memory_of_an_abandoned_packet_is_not_reused_unless_it_came_back) {
  for (const bool came_back : {false, true}) {
    auto pool = std::make_unique<packet_pool>(arena_, 512, 4);
    packet* const p = pool->get();
    if (came_back && pool->lend(p)) return_borrowed(*at_peer(p));
    pool.reset();
    packet_pool next(arena_, 512, 4);
    const auto all = get_all(next);
    EXPECT_EQ(std::set<packet*>(all.begin(), all.end()).count(p), came_back ? 1u : 0u);
  }
}

// Threads get, stamp, pass to each other, lend, return and put; a packet with two owners would
// carry a wrong stamp. Few packets, so that stealing happens all the time.
void stress(arena& arena_, std::size_t limit, bool locked) {
  base::force_locked_fence_for_test(locked);
  const char* const given = std::getenv("LCI_TEST_SEED");
  const unsigned seed = given != nullptr ? std::strtoul(given, nullptr, 0) : std::random_device{}();
  SCOPED_TRACE("LCI_TEST_SEED=" + std::to_string(seed));
  constexpr int threads_count = 4;
  constexpr int rounds = 15000;
  packet_pool pool(arena_, 256, limit);
  struct parcel {
    packet* p;
    std::uint64_t stamp;
    bool lent;
  };
  std::mutex mutex;
  std::deque<parcel> post;
  std::atomic<std::uint64_t> wrong{0}, got{0}, empty{0};
  const auto work = [&](int me) {
    std::mt19937 random(seed + me);
    for (int i = 0; i < rounds; ++i) {
      if (random() % 2 == 0) {
        packet* const p = pool.get();
        if (p == nullptr) {
          empty.fetch_add(1, std::memory_order_relaxed);
          if (pool.outstanding() > limit) wrong.fetch_add(1, std::memory_order_relaxed);
          std::this_thread::yield();
        } else {
          got.fetch_add(1, std::memory_order_relaxed);
          const std::uint64_t stamp = (static_cast<std::uint64_t>(me) << 32) + i;
          std::memcpy(p->payload(), &stamp, sizeof stamp);
          const bool lent = random() % 2 == 0 && pool.lend(p);
          const std::lock_guard<std::mutex> lock(mutex);
          post.push_back({p, stamp, lent});
        }
      } else {
        parcel next{};
        {
          const std::lock_guard<std::mutex> lock(mutex);
          if (post.empty()) continue;
          next = post.front();
          post.pop_front();
        }
        std::uint64_t stamp = 0;
        std::memcpy(&stamp, next.p->payload(), sizeof stamp);
        if (stamp != next.stamp) wrong.fetch_add(1, std::memory_order_relaxed);
        if (next.lent)
          next.p->state.store(packet_state::returned, std::memory_order_release);
        else
          pool.put(next.p);
      }
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < threads_count; ++t) threads.emplace_back(work, t);
  for (auto& t : threads) t.join();
  for (const parcel& left : post) {
    if (left.lent)
      left.p->state.store(packet_state::returned, std::memory_order_release);
    else
      pool.put(left.p);
  }
  base::force_locked_fence_for_test(false);
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(got.load(), 0u);
  EXPECT_LE(pool.allocated(), limit);
  EXPECT_EQ(pool.misuses(), 0u);
  // Everything comes home: this thread can collect the whole pool, wherever it lies.
  std::set<packet*> all;
  const std::uint64_t until = base::cpu_ticks() + 2000 * base::ticks_per_ms();
  while (all.size() < limit && base::cpu_ticks() < until) {
    if (packet* const p = pool.get()) {
      EXPECT_TRUE(all.insert(p).second);
    }
  }
  EXPECT_EQ(all.size(), limit) << "lost packets; lent still: " << pool.lent();
}

TEST_F(packet_pool__threads, stress_with_few_packets) { stress(arena_, 16, false); }
TEST_F(packet_pool__threads, stress_with_many_packets) { stress(arena_, 2000, false); }
TEST_F(packet_pool__threads, stress_in_locked_form) { stress(arena_, 16, true); }

}  // namespace
}  // namespace lci::mem
