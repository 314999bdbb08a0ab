#include "backends/ibv/wire.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/seed.hpp"

namespace lci::ibv {
namespace {

hello sound() {
  hello out;
  out.to = 1;
  out.from = 2;
  out.rank = 3;
  out.qpn = 17;
  return out;
}

bool accepts(const hello& what, std::size_t size = sizeof(hello)) {
  std::byte bytes[sizeof(hello) + 8] = {};
  std::memcpy(bytes, &what, sizeof(what));
  hello out;
  return decode(bytes, size, out);
}

TEST(wire, hello__comes_back_as_it_was) {
  const hello was = sound();
  std::byte bytes[sizeof(hello)];
  std::memcpy(bytes, &was, sizeof(was));
  hello is;
  ASSERT_TRUE(decode(bytes, sizeof(bytes), is));
  EXPECT_EQ(std::memcmp(&was, &is, sizeof(was)), 0);
}

TEST(wire, hello__of_another_size_version_or_origin_is_refused) {
  ASSERT_TRUE(accepts(sound()));
  for (std::size_t size = 0; size < sizeof(hello) + 8; ++size)
    EXPECT_EQ(accepts(sound(), size), size == sizeof(hello)) << size;
  hello other = sound();
  other.magic ^= 1;
  EXPECT_FALSE(accepts(other));
  other = sound();
  ++other.version;
  EXPECT_FALSE(accepts(other));
  other = sound();
  other.qpn = 0;
  EXPECT_FALSE(accepts(other));
  other.qpn = 1u << 24;
  EXPECT_FALSE(accepts(other));
}

TEST(wire, hello__random_changes_never_make_another_origin_or_number_acceptable) {
  std::mt19937 random(test::test_seed());
  for (int i = 0; i < 100000; ++i) {
    std::byte bytes[sizeof(hello)];
    const hello was = sound();
    std::memcpy(bytes, &was, sizeof(was));
    const int changes = 1 + static_cast<int>(random() % 8);
    for (int n = 0; n < changes; ++n) bytes[random() % sizeof(bytes)] = std::byte(random());
    hello is;
    const bool is_taken = decode(bytes, sizeof(bytes), is);
    std::memcpy(&is, bytes, sizeof(is));
    EXPECT_EQ(is_taken, is.magic == HELLO_MAGIC && is.version == WIRE_VERSION && is.qpn != 0 &&
                            is.qpn < 1u << 24 && is.rails < MAX_RAILS);
  }
}

TEST(wire, address__comes_back_as_it_was_and_fits_the_bootstrap) {
  fabric_address was;
  was.id = 0x0123456789abcdef;
  was.host = 42;
  was.qpn = 77;
  was.where.lid = 9;
  was.where.gid[15] = 0xfe;
  fabric_address is;
  ASSERT_TRUE(fabric_address::parse(was.text(), is));
  EXPECT_EQ(std::memcmp(&was, &is, sizeof(was)), 0);
  EXPECT_LE(was.text().size(), 200u);
}

TEST(wire, address__any_wrong_letter_or_length_is_refused) {
  fabric_address good;
  good.qpn = 77;
  const std::string text = good.text();
  fabric_address out;
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(fabric_address::parse(text.substr(0, n), out)) << n;
    std::string wrong = text;
    wrong[n] = 'G';
    EXPECT_FALSE(fabric_address::parse(wrong, out)) << wrong;
  }
  EXPECT_FALSE(fabric_address::parse(text + "0", out));
  good.qpn = 0;
  EXPECT_FALSE(fabric_address::parse(good.text(), out));
}

// A row may be read while it changes: half old, half new must not pass.
TEST(wire, row__a_changed_field_does_not_check_out) {
  std::mt19937_64 random(test::test_seed());
  int passed = 0;
  for (int i = 0; i < 100000; ++i) {
    row was, now;
    for (row* const one : {&was, &now}) {
      one->generation = static_cast<std::uint32_t>(random());
      one->kind = one == &now ? 1 : 0;
      one->address = random();
      one->size = random();
      for (std::uint32_t& key : one->keys) key = static_cast<std::uint32_t>(random());
      one->check = check_of(*one);
    }
    row torn;
    const std::size_t first = 1 + random() % (sizeof(row) - 1);
    std::memcpy(&torn, &was, sizeof(row));
    std::memcpy(&torn, &now, first);
    const bool is_whole =
        std::memcmp(&torn, &was, sizeof(row)) == 0 || std::memcmp(&torn, &now, sizeof(row)) == 0;
    if (!is_whole && torn.check == check_of(torn)) ++passed;
  }
  EXPECT_LE(passed, 2);  // 31 bits of check
}

TEST(wire, row__zeroed_memory_does_not_check_out) {
  EXPECT_NE(check_of(row{}), 0u);
  EXPECT_NE(check_of(block_reference{}), 0u);
}

}  // namespace
}  // namespace lci::ibv
