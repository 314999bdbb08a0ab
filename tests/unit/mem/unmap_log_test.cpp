#include "lci/mem/unmap_log.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/support/race_hook.hpp"

namespace lci::test {
namespace {

using range = std::pair<std::uintptr_t, std::uintptr_t>;
constexpr std::size_t BLOCK = std::size_t{2} << 20;

struct seen {
  std::vector<range> ranges;
  int lost = 0;
  std::uint64_t drain(mem::unmap_log& log) {
    return log.drain([&](auto begin, auto end) { ranges.emplace_back(begin, end); },
                     [&] { ++lost; });
  }
};

TEST(unmap_log, drain__shows_each_range_once) {
  mem::unmap_log log;
  seen out;
  log.watch(0, BLOCK);
  const std::uint64_t before = out.drain(log);
  log.add(4096, 4096);
  log.add(100, 1);
  EXPECT_EQ(log.epoch(), before + 2);
  EXPECT_EQ(out.drain(log), before + 2);
  EXPECT_EQ(out.ranges, (std::vector<range>{{4096, 8192}, {100, 101}}));
  out.drain(log);
  EXPECT_EQ(out.ranges.size(), 2u);
  EXPECT_EQ(out.lost, 0);
}

TEST(unmap_log, add__nothing_watched_changes_nothing) {
  mem::unmap_log log;
  const std::uint64_t before = log.epoch();
  log.add(0, BLOCK);
  log.watch(8 * BLOCK, 1);
  log.add(7 * BLOCK, BLOCK);
  log.add(9 * BLOCK, BLOCK);
  log.add(8 * BLOCK, 0);
  EXPECT_EQ(log.epoch(), before);
  log.add(7 * BLOCK, BLOCK + 1);
  EXPECT_EQ(log.epoch(), before + 1);
  log.unwatch(8 * BLOCK, 1);
  log.add(8 * BLOCK, 1);
  EXPECT_EQ(log.epoch(), before + 1);
}

TEST(unmap_log, add__ranges_of_many_blocks) {
  mem::unmap_log log;
  const std::uint64_t before = log.epoch();
  log.watch(0, 5000 * BLOCK);
  log.add(4000 * BLOCK, 1);
  EXPECT_EQ(log.epoch(), before + 1);
  log.unwatch(0, 5000 * BLOCK);
  log.watch(3 * BLOCK, 1);
  log.add(0, 5000 * BLOCK);
  EXPECT_EQ(log.epoch(), before + 2);
}

// Between the looks at the wide ranges and at the blocks, one becomes part of a wide range.
TEST(unmap_log, add__range_that_a_wide_one_replaces_meanwhile) {
  if (!has_race_points) GTEST_SKIP() << RACE_POINTS_MISSING;
  mem::unmap_log log;
  const std::uint64_t before = log.epoch();
  log.watch(3 * BLOCK, BLOCK);
  const race_hook hook(
      "unmap_log.may_be_watched.before_blocks",
      [&] {
        log.watch(0, 5000 * BLOCK);
        log.unwatch(3 * BLOCK, BLOCK);
      },
      1);
  log.add(3 * BLOCK, BLOCK);
  EXPECT_EQ(hook.hits(), 1);
  EXPECT_EQ(log.epoch(), before + 1);
}

TEST(unmap_log, add__more_than_fit_are_said_to_be_lost) {
  mem::unmap_log log;
  seen out;
  log.watch(0, BLOCK);
  for (std::size_t i = 0; i < mem::unmap_log::SLOTS + 3; ++i) log.add(i, 1);
  out.drain(log);
  EXPECT_EQ(out.ranges.size(), mem::unmap_log::SLOTS);
  EXPECT_EQ(out.lost, 1);
  log.add(1, 1);
  out.drain(log);
  EXPECT_EQ(out.ranges.size(), mem::unmap_log::SLOTS + 1);
  EXPECT_EQ(out.lost, 1);
}

// Somebody looks while a range is being written down: that memory is still mapped, it comes later.
TEST(unmap_log, drain__while_a_record_is_written) {
  if (!has_race_points) GTEST_SKIP() << RACE_POINTS_MISSING;
  mem::unmap_log log;
  seen out;
  log.watch(0, BLOCK);
  log.add(1, 1);
  const race_hook hook(
      "unmap_log.try_record.before_full", [&] { out.drain(log); }, 1);
  log.add(2, 1);
  EXPECT_EQ(hook.hits(), 1);
  EXPECT_EQ(out.ranges.size(), 1u);
  out.drain(log);
  EXPECT_EQ(out.ranges.size(), 2u);
}

}  // namespace
}  // namespace lci::test
