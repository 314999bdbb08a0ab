#include "lci/device/key_table.hpp"

#include <gtest/gtest.h>

namespace {

using namespace lci::device;

class key_table_test : public testing::Test {
 protected:
  std::byte* at(std::uint32_t key, std::uint64_t offset, std::uint64_t length,
                unsigned wanted = READ) {
    return keys.resolve(key, base() + offset, length, wanted);
  }
  std::uint64_t base() { return reinterpret_cast<std::uintptr_t>(memory); }

  std::byte memory[64];
  key_table keys;
};

TEST_F(key_table_test, resolve__only_what_is_wholly_inside) {
  const std::uint32_t key = keys.add({memory, 64, READ});
  EXPECT_EQ(at(key, 0, 64), memory);
  EXPECT_EQ(at(key, 63, 1), memory + 63);
  EXPECT_EQ(at(key, 64, 0), memory + 64);
  EXPECT_EQ(at(key, 0, 65), nullptr);
  EXPECT_EQ(at(key, 64, 1), nullptr);
  EXPECT_EQ(at(key, -1, 1), nullptr);
  EXPECT_EQ(at(key, 1, ~std::uint64_t{0}), nullptr);  // the sum would run over
  EXPECT_EQ(keys.resolve(key, ~std::uint64_t{0}, 2, READ), nullptr);
}

TEST_F(key_table_test, resolve__only_what_is_allowed) {
  const std::uint32_t key = keys.add({memory, 64, REMOTE_READ | WRITE});
  EXPECT_NE(at(key, 0, 8, REMOTE_READ), nullptr);
  EXPECT_NE(at(key, 0, 8, WRITE), nullptr);
  EXPECT_EQ(at(key, 0, 8, REMOTE_WRITE), nullptr);
  EXPECT_EQ(at(key, 0, 8, REMOTE_ATOMIC), nullptr);
}

TEST_F(key_table_test, resolve__zero_based_addresses_are_offsets) {
  const std::uint32_t key = keys.add({memory, 64, READ, true});
  EXPECT_EQ(keys.resolve(key, 8, 56, READ), memory + 8);
  EXPECT_EQ(keys.resolve(key, 8, 57, READ), nullptr);
  EXPECT_EQ(at(key, 0, 8), nullptr);
}

TEST_F(key_table_test, remove__a_key_never_comes_back) {
  const std::uint32_t first = keys.add({memory, 64, READ});
  const std::uint32_t other = keys.add({memory, 64, READ});
  EXPECT_NE(first, other);
  std::uint32_t key = first;
  for (int i = 0; i < 600; ++i) {  // more than a slot has numbers
    keys.remove(key);
    EXPECT_EQ(at(key, 0, 8), nullptr);
    key = keys.add({memory, 64, READ});
    ASSERT_NE(key, first);
    EXPECT_EQ(at(first, 0, 8), nullptr);
    EXPECT_NE(at(key, 0, 8), nullptr);
  }
  EXPECT_NE(at(other, 0, 8), nullptr);
}

TEST_F(key_table_test, resolve__damaged_and_guessed_keys_find_nothing) {
  const std::uint32_t key = keys.add({memory, 64, READ});
  for (int bit = 0; bit < 32; ++bit) EXPECT_EQ(at(key ^ 1u << bit, 0, 8), nullptr) << bit;
  for (std::uint32_t guess : {0u, 1u, 0x100u, ~0u}) EXPECT_EQ(at(guess, 0, 8), nullptr);
}

}  // namespace
