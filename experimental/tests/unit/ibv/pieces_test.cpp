#include "experimental/ibv/multi_rail/pieces.hpp"

#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "tests/support/scoped_env.hpp"

namespace lci::ibv {
namespace {

TEST(pieces, cut__every_byte_once_and_in_order) {
  for (const unsigned usable : {0b11u, 0b101u, 0b111u, 0b1111u, 0b1010u}) {
    for (const std::size_t size : {1u, 4096u, 4097u, 8192u, 8193u, 100000u, 1u << 20}) {
      std::size_t at = 0;
      unsigned used = 0;
      for (const piece& one : cut(size, usable)) {
        EXPECT_EQ(one.at, at);
        EXPECT_EQ(one.at % 4096, 0u);
        EXPECT_GT(one.size, 0u);
        EXPECT_NE(usable >> one.rail & 1u, 0u);
        EXPECT_EQ(used >> one.rail & 1u, 0u) << "a rail twice";
        used |= 1u << one.rail;
        at += one.size;
      }
      EXPECT_EQ(at, size) << usable;
    }
  }
}

TEST(pieces, cut__about_equal_parts) {
  const pieces got = cut(1 << 20, 0b111);
  ASSERT_EQ(got.count, 3u);
  EXPECT_LE(got.of[0].size - got.of[2].size, 3u * 4096);
}

TEST(pieces, cut__for_the_first_alone_or_none_is_not_cut) {
  for (const unsigned usable : {0u, 1u}) EXPECT_EQ(cut(1 << 20, usable).count, 0u);
}

TEST(pieces, cut__for_another_one_alone_is_one_piece) {
  for (const std::size_t rail : {1u, 3u}) {
    const pieces got = cut(100001, 1u << rail);
    ASSERT_EQ(got.count, 1u);
    EXPECT_EQ(got.of[0].rail, rail);
    EXPECT_EQ(got.of[0].size, 100001u);
  }
}

TEST(pieces, least_to_cut__a_size_or_an_error_that_names_the_variable) {
  test::scoped_env env;
  env.unset("LCI_IBV_RAIL_SIZE");
  EXPECT_EQ(least_to_cut(), 131072u);
  env.set("LCI_IBV_RAIL_SIZE", "64K");
  EXPECT_EQ(least_to_cut(), 65536u);
  env.set("LCI_IBV_RAIL_SIZE", "0");
  EXPECT_THROW(least_to_cut(), argument_error);
}

}  // namespace
}  // namespace lci::ibv
