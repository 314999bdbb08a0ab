#include "lci/data/object_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "lci/base/thread_id.hpp"
#include "lci/data/mpmc_ring.hpp"
#include "tests/support/alloc_counter.hpp"

namespace {

struct node {
  node* pool_next = nullptr;
  int value = 0;
};
using pool = lci::data::object_pool<node>;

}  // namespace

TEST(object_pool, get__objects_are_distinct_and_come_back) {
  pool p;
  std::set<node*> out;
  constexpr int N = 32 * 30;  // whole slabs, so that no other object exists
  for (int i = 0; i < N; ++i) ASSERT_TRUE(out.insert(p.get()).second);
  for (node* n : out) p.put(n);
  for (int i = 0; i < N; ++i) ASSERT_EQ(out.count(p.get()), 1u) << "a new object was made";
}

TEST(object_pool, get__no_heap_after_warm_up) {
  if (!lci::test::has_alloc_counter()) GTEST_SKIP() << lci::test::ALLOC_COUNTER_MISSING;
  pool p;
  std::vector<node*> out(500);
  const auto round = [&] {
    for (auto& n : out) n = p.get();
    for (auto& n : out) p.put(n);
  };
  round();
  const lci::test::alloc_counter heap;
  for (int i = 0; i < 100; ++i) round();
  EXPECT_EQ(heap.calls(), 0u);
}

TEST(object_pool, at_hand__only_what_the_thread_has_and_as_much_as_it_keeps) {
  pool p;
  const std::uint32_t me = lci::base::thread_id();
  EXPECT_EQ(p.try_get_at_hand(me), nullptr) << "nothing is made";
  std::vector<node*> out(1000);
  for (auto& n : out) n = p.get();
  while (p.try_get_at_hand(me) != nullptr) {
  }
  std::set<node*> kept;
  for (node* const n : out)
    if (p.try_put_at_hand(n, me)) kept.insert(n);
  EXPECT_GT(kept.size(), 10u);
  EXPECT_LT(kept.size(), out.size()) << "what is more goes to other threads";
  for (std::size_t left = kept.size(); left != 0; --left) {
    node* const n = p.try_get_at_hand(me);
    ASSERT_NE(n, nullptr);
    EXPECT_EQ(kept.erase(n), 1u);
  }
  EXPECT_EQ(p.try_get_at_hand(me), nullptr);
}

// More than there is room for pieces: the rest lies in one list.
TEST(object_pool, get__finds_all_that_another_thread_gave) {
  pool p;
  std::set<node*> out;
  constexpr int N = 32 * 300;
  for (int i = 0; i < N; ++i) ASSERT_TRUE(out.insert(p.get()).second);
  std::thread giver([&] {
    for (node* n : out) p.put(n);
  });
  giver.join();
  std::set<node*> again;
  int made = 0;
  for (int i = 0; i < N; ++i) {
    node* const n = p.get();
    ASSERT_TRUE(again.insert(n).second) << "given twice";
    made += static_cast<int>(out.count(n) == 0);
  }
  EXPECT_LE(made, 128) << "more than the giver may have kept";
}

// One thread only takes, the other only gives: objects must find their way back, or memory grows
// without end.
TEST(object_pool, put__by_another_thread_returns_objects_to_the_taker) {
  constexpr int N = 50000;
  pool p;
  lci::data::mpmc_ring<node*> handed(64);
  std::atomic<int> errors{0};
  std::set<node*> ever;
  std::thread giver([&] {
    node* n = nullptr;
    for (int i = 0; i < N;) {
      if (!handed.try_pop(n)) {
        std::this_thread::yield();
        continue;
      }
      if (n->value != i++) ++errors;
      p.put(n);
    }
  });
  for (int i = 0; i < N; ++i) {
    node* const n = p.get();
    ever.insert(n);
    n->value = i;
    while (handed.try_push(n) != lci::data::push_result::pushed) std::this_thread::yield();
  }
  giver.join();
  EXPECT_EQ(errors, 0);
  EXPECT_LE(ever.size(), 1000u);
}

TEST(object_pool, get__threads_never_hold_the_same_object) {
  pool p;
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<node*> mine;
      for (int i = 0; i < 5000; ++i) {
        mine.push_back(p.get());
        mine.back()->value = t;
        if (mine.size() < 200) continue;
        for (node* n : mine) {
          if (n->value != t) ++errors;
          p.put(n);
        }
        mine.clear();
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(errors, 0);
}
