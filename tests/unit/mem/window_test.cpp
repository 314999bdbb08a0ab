// One range over the arena and the views of peers' arenas.
#include "lci/mem/window.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "lci/mem/arena.hpp"
#include "lci/mem/packet_pool.hpp"

namespace lci::mem {
namespace {

constexpr std::size_t MIB = std::size_t{1} << 20;

const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

TEST(window, covers__grows_both_ways_and_reaches_over_what_lies_between) {
  window w;
  w.start(at(100 * MIB), 10 * MIB);
  EXPECT_TRUE(w.covers(at(100 * MIB)));
  EXPECT_TRUE(w.covers(at(110 * MIB - 1)));
  EXPECT_FALSE(w.covers(at(110 * MIB)));
  EXPECT_FALSE(w.covers(at(100 * MIB - 1)));
  EXPECT_FALSE(w.covers(nullptr));
  EXPECT_FALSE(w.is_view(at(100 * MIB))) << "that is the arena itself";
  w.add(at(90 * MIB), 5 * MIB);
  w.add(at(200 * MIB), 5 * MIB);
  w.add(at(150 * MIB), 5 * MIB);
  for (const std::uintptr_t place : {90, 94, 100, 150, 204}) EXPECT_TRUE(w.covers(at(place * MIB)));
  for (const std::uintptr_t place : {90, 94, 150, 154, 200, 204})
    EXPECT_TRUE(w.is_view(at(place * MIB)));
  for (const std::uintptr_t place : {89, 95, 109, 149, 155, 205})
    EXPECT_FALSE(w.is_view(at(place * MIB)));
  EXPECT_FALSE(w.covers(at(90 * MIB - 1)));
  EXPECT_FALSE(w.covers(at(205 * MIB)));
  w.remove(at(150 * MIB));
  EXPECT_FALSE(w.is_view(at(150 * MIB)));
  EXPECT_TRUE(w.is_view(at(90 * MIB)));
}

TEST(window, place_for__is_below_everything_so_far) {
  window w;
  w.start(at(100 * MIB), 10 * MIB);
  EXPECT_EQ(w.place_for(8 * MIB), at(92 * MIB));
  w.add(at(92 * MIB), 8 * MIB);
  EXPECT_EQ(w.place_for(8 * MIB), at(84 * MIB));
  EXPECT_EQ(w.place_for(200 * MIB), nullptr);
}

// The range as a reader sees it holds at every moment whatever was added before.
TEST(window, covers__never_loses_what_was_there_while_it_grows) {
  window w;
  constexpr std::uintptr_t MIDDLE = std::uintptr_t{1} << 40;
  w.start(at(MIDDLE), MIB);
  std::atomic<bool> is_done{false};
  std::atomic<int> lost{0};
  std::thread reader([&] {
    while (!is_done.load(std::memory_order_relaxed))
      if (!w.covers(at(MIDDLE)) || !w.covers(at(MIDDLE + MIB - 1))) ++lost;
  });
  for (std::uintptr_t i = 1; i < 20000; ++i)
    w.add(at(i % 2 == 0 ? MIDDLE + i * MIB : MIDDLE - i * MIB), MIB);
  is_done = true;
  reader.join();
  EXPECT_EQ(lost, 0);
}

// Thread stacks and large blocks that come after the arena: a post from them should not look long.
TEST(window, arena__lies_away_from_ordinary_memory) {
  arena a(64 * MIB);
  int on_stack = 0;
  const auto block = std::make_unique<char[]>(8 * MIB);
  EXPECT_FALSE(a.sight().covers(&on_stack));
  EXPECT_FALSE(a.sight().covers(block.get()));
  std::thread([&] {
    int on_other_stack = 0;
    EXPECT_FALSE(a.sight().covers(&on_other_stack));
  }).join();
}

TEST(packet_pool__held, finds_ours_and_borrowed_packets_and_nothing_else) {
  arena here(64 * MIB), there(64 * MIB);
  packet_pool ours(here, 4096, 4), theirs(there, 4096, 4);
  packet* const mine = ours.get();
  packet* const borrowed = theirs.get();
  EXPECT_EQ(packet_pool::held(here, mine->payload()), mine);
  EXPECT_EQ(packet_pool::held(here, borrowed->payload()), nullptr) << "not known here";
  here.sight().add(there.at(0), there.reserved());
  EXPECT_EQ(packet_pool::held(here, borrowed->payload()), nullptr) << "not lent";
  ASSERT_TRUE(theirs.lend(borrowed));
  EXPECT_EQ(packet_pool::held(here, borrowed->payload()), borrowed);
  EXPECT_EQ(packet_pool::held(here, borrowed->payload() + 64), nullptr);
  EXPECT_EQ(packet_pool::held(here, borrowed->payload() + 8), nullptr);
  EXPECT_EQ(packet_pool::held(here, there.at(0)), nullptr) << "nothing lies before the first byte";
  EXPECT_EQ(packet_pool::held(here, nullptr), nullptr);
  release_packet(here, borrowed);
  EXPECT_EQ(packet_pool::held(here, borrowed->payload()), nullptr) << "given back already";
  ours.put(mine);
  EXPECT_EQ(packet_pool::held(here, mine->payload()), nullptr);
  EXPECT_EQ(theirs.reclaim(), 1u);
}

}  // namespace
}  // namespace lci::mem
