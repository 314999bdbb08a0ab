// What a borrower that has died holds comes home, also from a cache that is in use meanwhile.
#include <gtest/gtest.h>

#include <vector>

#include "lci/mem/packet_pool.hpp"
#include "tests/support/in_thread.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/support/sizes.hpp"

namespace lci::mem {
namespace {

TEST(packet_pool_recall, of_a_cache_in_use__is_repeated_by_who_runs_short) {
  if (!test::has_race_points) GTEST_SKIP() << test::RACE_POINTS_MISSING;
  arena memory(256 * test::MIB);
  packet_pool pool(memory, 512, 10);
  std::vector<packet*> all;
  while (packet* const p = pool.get()) all.push_back(p);
  for (int i = 0; i < 5; ++i) {
    all[i]->note = 7;
    ASSERT_TRUE(pool.lend(all[i]));
  }
  const test::race_hook hook(
      "packet_pool.take_back.inside",
      [&] { test::in_thread([&] { EXPECT_EQ(pool.recall(7), 0u); }); }, 1);
  EXPECT_EQ(pool.reclaim(), 0u);
  EXPECT_EQ(hook.hits(), 1);
  EXPECT_EQ(pool.lent(), 5u);
  test::in_thread([&] {
    for (int i = 0; i < 5; ++i) EXPECT_NE(pool.get(), nullptr);
    EXPECT_EQ(pool.get(), nullptr);
  });
  EXPECT_EQ(pool.lent(), 0u);
}

}  // namespace
}  // namespace lci::mem
