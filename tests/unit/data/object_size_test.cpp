// Sizes that budgets are built on: change one knowingly.
#include <gtest/gtest.h>

#include "lci/data/mpmc_queue.hpp"
#include "lci/data/slot_table.hpp"

TEST(object_size, names_of_slots__fit_a_header_field) {
  EXPECT_EQ(sizeof(lci::data::slot_name), 8u);
}

TEST(object_size, ring__producers_and_consumers_on_lines_of_their_own) {
  EXPECT_EQ(sizeof(lci::data::mpmc_ring<int>), 3 * lci::base::CACHE_LINE);
  EXPECT_EQ(alignof(lci::data::mpmc_ring<int>), lci::base::CACHE_LINE);
}

TEST(object_size, queue__two_lines) {
  EXPECT_LE(sizeof(lci::data::mpmc_queue<int>), 2 * lci::base::CACHE_LINE);
}
