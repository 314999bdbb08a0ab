// Cutting on demand, never beyond the limit; magazines in and out; rights to lend.
#include "lci/mem/packet_store.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/sizes.hpp"

namespace lci::mem {
namespace {

using lci::test::MIB;

std::set<packet*> empty_into_set(packet_store& store) {
  std::set<packet*> all;
  for (magazine m; store.fill(m);) {
    while (packet* const p = m.pop()) EXPECT_TRUE(all.insert(p).second) << "handed out twice";
  }
  return all;
}

TEST(fill__cut, as_many_as_the_limit_and_each_whole) {
  arena a(256 * MIB);
  packet_store store(a, nullptr, 8192, 1000);
  EXPECT_EQ(store.allocated(), 0u);
  const std::set<packet*> all = empty_into_set(store);
  EXPECT_EQ(all.size(), 1000u);
  EXPECT_EQ(store.allocated(), 1000u);
  packet* last = nullptr;
  for (packet* const p : all) {
    EXPECT_EQ(p->magic, packet::MAGIC);
    EXPECT_EQ(p->capacity, 8192 - sizeof(packet));
    EXPECT_EQ(p->state.load(), packet_state::pooled);
    if (last != nullptr) {
      EXPECT_GE(reinterpret_cast<std::byte*>(p) - reinterpret_cast<std::byte*>(last), 8192);
    }
    last = p;
  }
}

TEST(fill__cut, little_is_touched_for_the_first_packet) {
  arena a(256 * MIB);
  packet_store store(a, nullptr, 8192, 65536);
  magazine m;
  ASSERT_TRUE(store.fill(m));
  EXPECT_LE(m.count(), 8u);
  EXPECT_LE(a.committed(), 2 * MIB);
}

TEST(fill__memory, an_exhausted_arena_is_no_packet_and_stored_ones_still_come) {
  arena a(2 * MIB);
  packet_store store(a, nullptr, 64 << 10, 1000);
  std::set<packet*> all = empty_into_set(store);
  EXPECT_GT(all.size(), 10u);
  EXPECT_LT(all.size(), 33u);
  magazine m;
  m.push(*all.begin());
  store.drain(m);
  EXPECT_EQ(store.pooled(), 1u);
  ASSERT_TRUE(store.fill(m));
  EXPECT_EQ(m.pop(), *all.begin());
}

TEST(drain__chains, come_back_whole_and_last_first) {
  arena a(64 * MIB);
  packet_store store(a, nullptr, 256, 64);
  magazine one, two;
  ASSERT_TRUE(store.fill(one));
  ASSERT_TRUE(store.fill(two));
  const std::uint32_t count_one = one.count();
  packet* const keep = two.pop();
  const std::uint32_t count_two = two.count();
  store.drain(one);
  store.drain(two);
  store.drain(two);  // empty: nothing happens
  EXPECT_EQ(store.pooled(), count_one + count_two);
  ASSERT_TRUE(store.fill(one));
  EXPECT_EQ(one.count(), count_two);
  ASSERT_TRUE(store.fill(two));
  EXPECT_EQ(two.count(), count_one);
  EXPECT_EQ(store.pooled(), 0u);
  EXPECT_EQ(keep->state.load(), packet_state::pooled);
}

TEST(take_credits__cap, half_the_limit_in_all) {
  arena a(64 * MIB);
  packet_store store(a, nullptr, 256, 100);
  std::uint32_t sum = 0;
  while (const std::uint32_t n = store.take_credits(16)) {
    EXPECT_LE(n, 16u);
    sum += n;
  }
  EXPECT_EQ(sum, 50u);
  store.return_credits(3);
  EXPECT_EQ(store.take_credits(16), 1u) << "few are left: few are given";
}

TEST(take_credits__cap, a_pool_of_one_packet_lends_nothing) {
  arena a(64 * MIB);
  packet_store store(a, nullptr, 256, 1);
  EXPECT_EQ(store.take_credits(16), 0u);
}

TEST(packet_store__end, memory_goes_back_only_when_all_are_home) {
  arena a(64 * MIB);
  std::byte* where = nullptr;
  for (const bool home : {false, true}) {
    packet_store store(a, nullptr, 8192, 4);
    magazine m;
    ASSERT_TRUE(store.fill(m));
    auto* const first = reinterpret_cast<std::byte*>(m.pop());
    EXPECT_NE(first, where) << "a packet that was out was handed out again";
    where = first;
    if (home) store.free_memory_at_end();
  }
  packet_store store(a, nullptr, 8192, 4);
  magazine m;
  ASSERT_TRUE(store.fill(m));
  EXPECT_EQ(reinterpret_cast<std::byte*>(m.pop()), where);
}

TEST(packet_store__threads, every_packet_once_while_growing) {
  arena a(256 * MIB);
  packet_store store(a, nullptr, 256, 5000);
  std::vector<std::set<packet*>> got(4);
  std::vector<std::thread> threads;
  for (auto& mine : got) threads.emplace_back([&] { mine = empty_into_set(store); });
  for (auto& t : threads) t.join();
  std::set<packet*> all;
  for (auto& mine : got) all.merge(mine);
  EXPECT_EQ(all.size(), 5000u);
  for (const auto& mine : got) EXPECT_TRUE(mine.empty()) << "two threads had the same packet";
}

}  // namespace
}  // namespace lci::mem
