// Registrations of the verbs backend with the cache behind them.
#include <algorithm>
#include <cerrno>
#include <optional>

#include "backends/ibv/region.hpp"
#include "lci/errors.hpp"
#include "tests/unit/ibv/kept_regions.hpp"

namespace lci::ibv {
namespace {

// One that lies inside of another shares its registration; what peers are told stays each one's own
// address.
TEST_F(region_keeping, publish__overlapping_regions_keep_their_bases) {
  open();
  const std::uint64_t low = add(memory + 16, 3 * PAGE);
  const std::uint64_t high = add(memory + 2 * PAGE + 8, 3 * PAGE);
  const std::uint64_t inside = add(memory + PAGE + 5, 7);
  all->publish({1, 1}, low);
  all->publish({2, 1}, high);
  all->publish({3, 1}, inside);
  const auto at = [&](std::size_t offset) {
    return reinterpret_cast<std::uint64_t>(memory + offset);
  };
  EXPECT_EQ(all->target_of({1, 1}).address, at(16));
  EXPECT_EQ(all->target_of({2, 1}).address, at(2 * PAGE + 8));
  EXPECT_EQ(all->target_of({3, 1}).address, at(PAGE + 5));
  EXPECT_EQ(all->target_of({1, 1}).key, peer_key_of(low));
  EXPECT_EQ(all->target_of({2, 1}).key, peer_key_of(high));
  EXPECT_EQ(key_of(inside), key_of(high));
  EXPECT_NE(key_of(low), key_of(high)) << "a key is valid as long as its region";
  all->remove(low);
  EXPECT_EQ(all->target_of({1, 1}).key, 0u);
  EXPECT_EQ(all->target_of({2, 1}).key, peer_key_of(high));
  all->remove(high);
  all->remove(inside);
}

// Unmapped by a program that did not deregister: the key goes on until it does.
TEST_F(region_keeping, remove__after_an_unmap_ends_the_registration) {
  open();
  const std::size_t there = alive();
  const std::uint64_t key = add(memory, PAGE);
  told.listener->on_unmap(reinterpret_cast<std::uintptr_t>(memory), PAGE);
  const std::uint64_t other = add(memory + 4 * PAGE, PAGE);
  EXPECT_EQ(alive(), there + 2);
  all->remove(key);
  EXPECT_EQ(alive(), there + 1);
  all->remove(other);
  EXPECT_EQ(alive(), there + 1) << "kept";
}

TEST_F(region_keeping, publish__what_is_kept_makes_room_for_the_row) {
  open();
  const std::uint64_t key = add(memory + 4 * PAGE, PAGE);
  keep_a_page();
  leave_room_for(sizeof(row) * ROWS - PAGE);
  all->publish({1, 1}, key);
  EXPECT_EQ(all->target_of({1, 1}).key, peer_key_of(key));
  all->remove(key);
}

TEST_F(region_keeping, destructor__leaves_nothing_registered) {
  const std::size_t there = alive();
  open();
  all->remove(add(memory, PAGE));
  add(memory + 4 * PAGE, PAGE);  // never removed, which is warned of
  all.reset();
  EXPECT_EQ(alive(), there);
}

}  // namespace
}  // namespace lci::ibv
