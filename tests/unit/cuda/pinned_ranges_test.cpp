#include "backends/cuda/pinned_ranges.hpp"

#include <gtest/gtest.h>

#include <array>
#include <tuple>

namespace lci::cuda {

TEST(pinned_ranges, contains__whole_ranges_only) {
  std::array<std::byte, 300> memory;
  pinned_ranges ranges;
  EXPECT_FALSE(ranges.contains(memory.data(), 1));
  EXPECT_EQ(ranges.any(), nullptr);
  ranges.add(&memory[100], 50);
  ranges.add(&memory[200], 50);
  for (const auto& [at, size, expected] : {std::tuple{100, 50, true},
                                           {120, 30, true},
                                           {120, 31, false},
                                           {99, 2, false},
                                           {99, 1, false},
                                           {149, 1, true},
                                           {150, 1, false},
                                           {100, 150, false},
                                           {249, 1, true},
                                           {250, 1, false}})
    EXPECT_EQ(
        ranges.contains(&memory[static_cast<std::size_t>(at)], static_cast<std::size_t>(size)),
        expected)
        << at << " " << size;
}

TEST(pinned_ranges, remove__says_whether_it_was_there) {
  std::array<std::byte, 64> memory;
  pinned_ranges ranges;
  ranges.add(memory.data(), 64);
  EXPECT_FALSE(ranges.remove(&memory[1]));
  EXPECT_EQ(ranges.any(), memory.data());
  EXPECT_TRUE(ranges.remove(memory.data()));
  EXPECT_FALSE(ranges.remove(memory.data()));
  EXPECT_FALSE(ranges.contains(memory.data(), 1));
}

}  // namespace lci::cuda
