// Sizes that budgets are built on: change one knowingly.
#include <gtest/gtest.h>

#include "lci/match/map_engine.hpp"

TEST(object_size, entry__two_cache_lines) {
  EXPECT_LE(sizeof(lci::match::entry), 2 * lci::base::CACHE_LINE);
}

// Start-up memory of an engine: the buckets, and the lists of the pool; each runtime has two
// engines.
TEST(object_size, map_engine__small_at_the_start) {
  EXPECT_LE(sizeof(lci::match::map_engine) +
                lci::match::map_engine::FIRST_BUCKETS * lci::base::CACHE_LINE,
            128u * 1024);
}
