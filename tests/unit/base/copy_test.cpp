// Small copies move what they are told to and nothing else.
#include "lci/base/copy.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace lci::base {
namespace {

TEST(copy_small, every_size__copies_just_that_much) {
  std::string from(COPIED_IN_PIECES + 40, 0);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 7 + (i >> 8));
  const auto check = [&](std::size_t size) {
    std::string to(size + 2, '.');
    copy_small(to.data() + 1, from.data() + 2, size);
    ASSERT_EQ(to, '.' + from.substr(2, size) + '.') << size;
  };
  for (std::size_t size = 0; size <= 300; ++size) check(size);
  for (std::size_t size = COPIED_IN_PIECES - 20; size <= COPIED_IN_PIECES + 20; ++size) check(size);
}

TEST(store_pair, two_words__in_order_at_any_address) {
  std::array<unsigned char, 32> to{};
  to.fill(0xee);
  store_pair(to.data() + 3, 0x0807060504030201u, 0x100f0e0d0c0b0a09u);
  for (unsigned i = 0; i < 16; ++i) EXPECT_EQ(to[3 + i], i + 1);
  EXPECT_EQ(to[2], 0xee);
  EXPECT_EQ(to[19], 0xee);
}

}  // namespace
}  // namespace lci::base
