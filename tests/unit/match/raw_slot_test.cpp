// Raw keys in the map engine: the first of a bucket in its slot, the others behind it in queues.
#include "lci/match/raw_slot.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <new>
#include <thread>
#include <vector>

#include "lci/match/map_engine.hpp"
#include "tests/support/alloc_counter.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/unit/match/engines.hpp"

namespace {

using lci::match::map_engine;
using side = lci::matching_entry_type_t;

class raw_slot : public testing::Test {
 protected:
  void* send(std::uint64_t key, std::uint64_t v) {
    return engine_.insert_raw(key, as_value(v), side::send);
  }
  void* recv(std::uint64_t key, std::uint64_t v) {
    return engine_.insert_raw(key, as_value(v), side::recv);
  }
  void* any(std::uint64_t v) {
    return engine_.insert_recv({lci::ANY_SOURCE, lci::ANY_TAG, lci::test::BOTH}, as_value(v));
  }
  static void* as_value(std::uint64_t i) { return reinterpret_cast<void*>(i); }
  std::size_t drain() {
    std::size_t raw = 0;
    engine_.drain_st([&](void*, side, bool is_raw) { raw += is_raw ? 1 : 0; });
    return raw;
  }
  void TearDown() override { drain(); }
  map_engine engine_;
};

}  // namespace

// Whether the slot is empty or not when the next one comes.
TEST_F(raw_slot, one_key__first_in_first_out) {
  std::uint64_t in = 0, out = 0;
  for (const int more : {1, 3, -2, 1, -3, 1, 1, -1, 2, -3, 5, -5, 1, -1}) {
    for (int i = 0; i < more; ++i) ASSERT_EQ(send(7, ++in), nullptr);
    for (int i = 0; i < -more; ++i) ASSERT_EQ(recv(7, 1000), as_value(++out));
    ASSERT_EQ(engine_.size(), in - out);
  }
  EXPECT_EQ(in, out);
}

TEST_F(raw_slot, is_taken_by_the_other_side_only) {
  EXPECT_EQ(recv(7, 1), nullptr);
  EXPECT_EQ(recv(7, 2), nullptr);
  EXPECT_EQ(send(8, 3), nullptr);
  EXPECT_EQ(send(7, 4), as_value(1));
  EXPECT_EQ(send(7, 5), as_value(2));
  EXPECT_EQ(send(7, 6), nullptr);
  EXPECT_EQ(drain(), 2u);
  EXPECT_EQ(engine_.size(), 0u);
  EXPECT_EQ(recv(7, 7), nullptr) << "the slot was emptied";
}

TEST_F(raw_slot, a_table_that_grows_takes_it_along) {
  constexpr std::uint64_t KEYS = 50000;
  for (std::uint64_t round = 0; round < 2; ++round)
    for (std::uint64_t k = 0; k < KEYS; ++k) ASSERT_EQ(send(k, 1 + 2 * k + round), nullptr);
  EXPECT_GT(engine_.bucket_count(), map_engine::FIRST_BUCKETS);
  EXPECT_EQ(engine_.size(), 2 * KEYS);
  for (std::uint64_t round = 0; round < 2; ++round)
    for (std::uint64_t k = 0; k < KEYS; ++k) ASSERT_EQ(recv(k, 1), as_value(1 + 2 * k + round));
  EXPECT_EQ(engine_.size(), 0u);
}

TEST_F(raw_slot, wildcards_leave_the_order_as_it_was) {
  for (const std::uint64_t before : {1, 2}) {
    std::uint64_t in = 0;
    while (in < before) send(7, ++in);
    EXPECT_EQ(any(50), nullptr);
    EXPECT_TRUE(engine_.is_ordered());
    send(7, ++in);
    EXPECT_EQ(engine_.size(), in + 1);
    EXPECT_EQ(recv(7, 60), as_value(1));
    EXPECT_EQ(engine_.insert_send({1, 9, lci::test::BOTH}, as_value(61)), as_value(50));
    for (std::uint64_t i = 0; i < map_engine::QUIET_OPERATIONS; ++i) recv(8, i + 1);
    EXPECT_FALSE(engine_.is_ordered());
    send(7, ++in);
    for (std::uint64_t out = 1; out < in;) ASSERT_EQ(recv(7, 60), as_value(++out));
    drain();
  }
}

// The first wildcard needs memory for what lies in the slots.
TEST_F(raw_slot, wildcard_out_of_memory__nothing_is_lost) {
  if (!lci::test::has_alloc_counter()) GTEST_SKIP() << lci::test::ALLOC_COUNTER_MISSING;
  constexpr std::uint64_t KEYS = 100;
  bool fired = true;
  std::uint64_t nth = 1;
  for (; fired; ++nth) {
    map_engine e;
    for (std::uint64_t k = 0; k < KEYS; ++k) e.insert_raw(k, as_value(k + 1), side::send);
    {
      const lci::test::fail_nth_allocation fail(nth);
      try {
        e.insert_recv({lci::ANY_SOURCE, 7, lci::test::BOTH}, as_value(200));
      } catch (const std::bad_alloc&) {
        EXPECT_FALSE(e.is_ordered());
      }
      fired = fail.fired();
    }
    for (std::uint64_t k = 0; k < KEYS; ++k)
      ASSERT_EQ(e.insert_raw(k, as_value(300), side::recv), as_value(k + 1));
    e.drain_st([](void*, side, bool) {});
  }
  EXPECT_GT(nth, 3u);
}

TEST_F(raw_slot, wildcard_posted_between_look_and_lock) {
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  send(7, 1);
  lci::test::race_hook hook(
      "map_engine.insert_raw.before_lock", [&] { EXPECT_EQ(any(50), nullptr); }, 1);
  EXPECT_EQ(recv(7, 2), as_value(1));
  EXPECT_EQ(hook.hits(), 1);
}

TEST_F(raw_slot, table_grown_between_look_and_lock) {
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  send(7, 1);
  lci::test::race_hook hook(
      "map_engine.insert_raw.before_lock",
      [&] {
        for (std::uint64_t k = 100; engine_.bucket_count() == map_engine::FIRST_BUCKETS; ++k)
          engine_.insert_send({1, k, lci::test::BOTH}, as_value(k));
      },
      1);
  EXPECT_EQ(recv(7, 2), as_value(1)) << "the slot of the old table";
  EXPECT_EQ(hook.hits(), 1);
  EXPECT_EQ(send(7, 3), nullptr) << "taken twice";
}

// Each key has two threads that send and two that receive; buckets fill up until the table grows,
// and wildcards come and go. Everything meets once.
TEST_F(raw_slot, stress__threads_meet_once) {
  constexpr std::uint64_t THREADS = 4, BLOCKS = 2, KEYS = 12000, EACH = BLOCKS * KEYS;
  std::vector<std::atomic<int>> met(2 * THREADS * EACH + 1);
  std::vector<std::thread> threads;
  const auto note = [&](std::uint64_t mine, void* partner) {
    if (partner == nullptr) return;
    ++met[mine];
    ++met[reinterpret_cast<std::uint64_t>(partner)];
  };
  const auto key_of = [](std::uint64_t thread, std::uint64_t i) {
    return thread % 2 * KEYS + i % KEYS;
  };
  for (std::uint64_t t = 0; t < THREADS; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t block = 0; block < BLOCKS; ++block) {
        const std::uint64_t first = block * KEYS, end = first + KEYS;
        for (std::uint64_t i = first; i < end; ++i) {
          const std::uint64_t one = 1 + t * EACH + i;
          note(one, send(key_of(t, i), one));
        }
        for (std::uint64_t i = first; i < end; ++i) {
          const std::uint64_t one = 1 + (THREADS + t) * EACH + i;
          note(one, recv(key_of(t + 1, i), one));
          if (t == 0 && i == 2000) {
            any(500000);
            engine_.remove_recv({lci::ANY_SOURCE, lci::ANY_TAG, lci::test::BOTH}, as_value(500000));
          }
        }
      }
    });
  for (std::thread& each : threads) each.join();
  EXPECT_GT(engine_.bucket_count(), map_engine::FIRST_BUCKETS);
  EXPECT_EQ(engine_.size(), 0u);
  std::map<int, int> times;
  for (std::uint64_t i = 1; i < met.size(); ++i) ++times[met[i]];
  EXPECT_EQ(times, (std::map<int, int>{{1, 2 * THREADS * EACH}}));
}
