#include "lci/data/free_list.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/alloc_counter.hpp"

namespace {

struct node {
  node* next = nullptr;
  int value = 0;
};
using pool_st = lci::data::slab_pool_st<node, &node::next>;
using pool = lci::data::slab_pool<node, &node::next>;

}  // namespace

TEST(free_list_st, get__last_in_first_out_and_null_when_empty) {
  lci::data::free_list_st<node, &node::next> list;
  node a, b;
  EXPECT_EQ(list.get(), nullptr);
  EXPECT_TRUE(list.is_empty());
  list.put(&a);
  list.put(&b);
  EXPECT_FALSE(list.is_empty());
  EXPECT_EQ(list.get(), &b);
  EXPECT_EQ(list.get(), &a);
  EXPECT_EQ(list.get(), nullptr);
}

TEST(slab_pool_st, get__objects_are_distinct_and_come_back) {
  pool_st p;
  std::set<node*> out;
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(out.insert(p.get()).second);
  const std::size_t capacity = p.capacity();
  EXPECT_GE(capacity, 5000u);
  for (node* n : out) p.put(n);
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(out.count(p.get()) == 1);
  EXPECT_EQ(p.capacity(), capacity);
}

TEST(slab_pool_st, get__no_heap_after_warm_up) {
  if (!lci::test::has_alloc_counter()) GTEST_SKIP() << lci::test::ALLOC_COUNTER_MISSING;
  pool_st p;
  std::vector<node*> out(300);
  for (auto& n : out) n = p.get();
  for (auto& n : out) p.put(n);
  const lci::test::alloc_counter heap;
  for (auto& n : out) n = p.get();
  for (auto& n : out) p.put(n);
  EXPECT_EQ(heap.calls(), 0u);
}

TEST(slab_pool, get__threads_never_hold_the_same_object) {
  pool p;
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10000; ++i) {
        node* a = p.get();
        a->value = t;
        node* b = p.get();
        b->value = -t;
        if (a == b || a->value != t || b->value != -t) ++errors;
        p.put(a);
        p.put(b);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(errors, 0);
  EXPECT_LE(p.capacity(), 16u) << "eight objects are out at most at any time";
}
