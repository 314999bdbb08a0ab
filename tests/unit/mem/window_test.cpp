// One range over the arena and the views of peers' arenas.
#include "lci/mem/window.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>
#include <thread>

#include "lci/mem/arena.hpp"
#include "lci/mem/packet_pool.hpp"
#include "tests/support/sizes.hpp"

namespace lci::mem {
namespace {

using lci::test::MIB;

const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

constexpr std::uintptr_t ARENA = window::ROOM + 100 * MIB;

TEST(window, covers__the_arena_and_the_room_below_it) {
  window w;
  EXPECT_FALSE(w.covers(nullptr)) << "nothing before the start";
  w.start(at(ARENA), 10 * MIB);
  EXPECT_TRUE(w.covers(at(ARENA + 10 * MIB - 1)));
  EXPECT_FALSE(w.covers(at(ARENA + 10 * MIB)));
  EXPECT_TRUE(w.covers(at(100 * MIB)));
  EXPECT_FALSE(w.covers(at(100 * MIB - 1)));
  EXPECT_FALSE(w.covers(nullptr));
}

TEST(window, widen__covers_the_old_range_and_more) {
  window w;
  w.start(at(ARENA), 10 * MIB);
  w.widen(at(ARENA + 50 * MIB), MIB);
  EXPECT_TRUE(w.covers(at(ARENA + 51 * MIB - 1)));
  EXPECT_FALSE(w.covers(at(ARENA + 51 * MIB)));
  EXPECT_TRUE(w.covers(at(100 * MIB)));
  w.widen(at(10 * MIB), MIB);
  EXPECT_TRUE(w.covers(at(10 * MIB)));
  EXPECT_FALSE(w.covers(at(10 * MIB - 1)));
  EXPECT_TRUE(w.covers(at(ARENA + 51 * MIB - 1)));
  w.widen(at(200 * MIB), MIB);  // in there already
  EXPECT_TRUE(w.covers(at(10 * MIB)));
  EXPECT_TRUE(w.covers(at(ARENA + 51 * MIB - 1)));
  EXPECT_FALSE(w.add(at(20 * MIB), MIB)) << "views keep to the range of the start";
  EXPECT_TRUE(w.add(at(100 * MIB), MIB));
}

TEST(window, is_view__only_what_was_added_and_not_removed) {
  window w;
  w.start(at(ARENA), 10 * MIB);
  EXPECT_TRUE(w.add(at(200 * MIB), 5 * MIB));
  EXPECT_TRUE(w.add(at(300 * MIB), 5 * MIB));
  for (const std::uintptr_t place : {200, 204, 300, 304}) EXPECT_TRUE(w.is_view(at(place * MIB)));
  for (const std::uintptr_t place : {199, 205, 250, 299, 305})
    EXPECT_FALSE(w.is_view(at(place * MIB)));
  EXPECT_FALSE(w.is_view(at(ARENA))) << "that is the arena itself";
  w.remove(at(200 * MIB));
  EXPECT_FALSE(w.is_view(at(200 * MIB)));
  EXPECT_TRUE(w.is_view(at(300 * MIB)));
}

TEST(window, add__refuses_what_sticks_out) {
  window w;
  w.start(at(ARENA), 10 * MIB);
  EXPECT_FALSE(w.add(at(99 * MIB), 5 * MIB));
  EXPECT_FALSE(w.add(at(ARENA + 6 * MIB), 5 * MIB));
  EXPECT_FALSE(w.add(at(ARENA + 20 * MIB), 5 * MIB));
  EXPECT_FALSE(w.add(at(200 * MIB), ~std::size_t{0}));
  EXPECT_FALSE(w.is_view(at(200 * MIB)));
}

TEST(window, place_for__is_below_everything_so_far) {
  window w;
  w.start(at(ARENA), 10 * MIB);
  EXPECT_EQ(w.place_for(8 * MIB), at(ARENA - 8 * MIB));
  EXPECT_TRUE(w.add(at(ARENA - 8 * MIB), 8 * MIB));
  EXPECT_EQ(w.place_for(8 * MIB), at(ARENA - 16 * MIB));
  EXPECT_EQ(w.place_for(window::ROOM), nullptr);
}

TEST(window, start__low_in_memory_has_less_room) {
  window w;
  w.start(at(100 * MIB), 10 * MIB);
  EXPECT_TRUE(w.covers(at(1)));
  EXPECT_FALSE(w.covers(at(110 * MIB)));
  EXPECT_EQ(w.place_for(200 * MIB), nullptr);
}

// Two runtimes of one process.
TEST(window, arenas__do_not_lie_in_each_others_room) {
  if (LCI_TSAN) GTEST_SKIP() << "thread sanitizer has no room for a second window";
  arena one(64 * MIB), other(64 * MIB);
  EXPECT_FALSE(one.packet_window().covers(other.at(0)));
  EXPECT_FALSE(other.packet_window().covers(one.at(0)));
}

// Thread stacks and large blocks that come after the arena: a post from them should not look long.
TEST(window, arena__lies_away_from_ordinary_memory) {
  arena a(64 * MIB);
  int on_stack = 0;
  const auto block = std::make_unique<char[]>(8 * MIB);
  EXPECT_FALSE(a.packet_window().covers(&on_stack));
  EXPECT_FALSE(a.packet_window().covers(block.get()));
  std::thread([&] {
    int on_other_stack = 0;
    EXPECT_FALSE(a.packet_window().covers(&on_other_stack));
  }).join();
}

TEST(packet_pool__held, finds_ours_and_borrowed_packets_and_nothing_else) {
  arena here(64 * MIB), there(64 * MIB);
  packet_pool ours(here, 4096, 4), theirs(there, 4096, 4);
  packet* const mine = ours.get();
  packet* borrowed = theirs.get();
  EXPECT_EQ(packet_pool::held(here, mine->payload()), mine);
  EXPECT_EQ(packet_pool::held(here, borrowed->payload()), nullptr) << "not known here";
  // As a peer's arena is mapped: the same file once more.
  void* const place = here.packet_window().place_for(there.reserved());
  void* const seen =
      mmap(place, there.reserved(), PROT_READ | PROT_WRITE, MAP_SHARED, there.fd(), 0);
  ASSERT_EQ(seen, place) << "nothing else is there";
  ASSERT_TRUE(here.packet_window().add(seen, there.reserved()));
  packet* const lent = borrowed;
  borrowed = packet::of_payload(static_cast<std::byte*>(seen) + there.offset_of(lent->payload()));
  EXPECT_EQ(packet_pool::held(here, borrowed->payload()), nullptr) << "not lent";
  ASSERT_TRUE(theirs.lend(lent));
  EXPECT_EQ(packet_pool::held(here, borrowed->payload()), borrowed);
  EXPECT_EQ(packet_pool::held(here, borrowed->payload() + 64), nullptr);
  EXPECT_EQ(packet_pool::held(here, borrowed->payload() + 8), nullptr);
  EXPECT_EQ(packet_pool::held(here, seen), nullptr) << "nothing lies before the first byte";
  EXPECT_EQ(packet_pool::held(here, nullptr), nullptr);
  release_packet(here, borrowed);
  EXPECT_EQ(packet_pool::held(here, borrowed->payload()), nullptr) << "given back already";
  ours.put(mine);
  EXPECT_EQ(packet_pool::held(here, mine->payload()), nullptr);
  EXPECT_EQ(theirs.reclaim(), 1u);
  here.packet_window().remove(seen);
  munmap(seen, there.reserved());
}

}  // namespace
}  // namespace lci::mem
