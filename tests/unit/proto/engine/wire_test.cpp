#include "lci/proto/engine/wire.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/support/seed.hpp"

namespace wire = lci::proto::wire;

TEST(imm_layout, encode__round_trip_at_the_limits_of_every_width) {
  for (std::uint32_t tag_bits = 0; tag_bits <= 31; ++tag_bits) {
    const wire::imm_layout layout{tag_bits, 31 - tag_bits};
    for (const lci::tag_t tag : {lci::tag_t{0}, layout.max_tag()})
      for (const std::uint64_t rcomp : {std::uint64_t{0}, layout.max_rcomp()}) {
        const std::uint32_t imm = layout.encode(static_cast<lci::rcomp_t>(rcomp), tag);
        EXPECT_NE(imm & wire::FAST_BIT, 0u);
        EXPECT_EQ(layout.tag_of(imm), tag) << tag_bits;
        EXPECT_EQ(layout.rcomp_of(imm), rcomp) << tag_bits;
      }
  }
}

TEST(imm_layout, fits__refuses_one_more_than_the_largest) {
  const wire::imm_layout layout;
  EXPECT_TRUE(layout.fits(32767, 65535));
  EXPECT_FALSE(layout.fits(32768, 0));
  EXPECT_FALSE(layout.fits(0, 65536));
}

TEST(kind_imm, kind_of__round_trip_and_never_fast) {
  for (const auto k : {wire::kind::extended, wire::kind::rts, wire::kind::rtr, wire::kind::fin,
                       wire::kind::fin_imm, wire::kind::signal}) {
    EXPECT_EQ(wire::kind_of(wire::kind_imm(k, 0x0fffffff)), k);
    EXPECT_EQ(wire::kind_imm(k, 0x0fffffff) & wire::FAST_BIT, 0u);
  }
}

TEST(short_name, generation_and_slot__survive_and_other_generation_is_refused) {
  const wire::name name{0x3ffff, 0x12345};
  ASSERT_TRUE(wire::has_short_name(name));
  const std::uint32_t argument = wire::short_name(name);
  EXPECT_LT(argument, 1u << 28);
  EXPECT_EQ(wire::short_slot(argument), name.slot);
  EXPECT_TRUE(wire::short_generation_is(argument, name.generation));
  EXPECT_FALSE(wire::short_generation_is(argument, name.generation + 2));
  EXPECT_FALSE(wire::has_short_name({0x40000, 1}));
}

TEST(decode, any_other_length__is_refused) {
  std::byte bytes[64] = {};
  for (std::size_t n = 0; n <= sizeof(bytes); ++n) {
    wire::rts body;
    EXPECT_EQ(wire::decode(bytes, n, body), n == sizeof(body)) << n;
  }
}

// What names a target travels with it or without, and what it says must be what its length says.
template <class Body>
void expect_two_lengths(std::size_t without, std::size_t with) {
  Body body;
  EXPECT_EQ(wire::length_of(body), without);
  body.at.address = 5;
  EXPECT_EQ(wire::length_of(body), without) << "without a key there is nothing to say";
  body.at.key = 7;
  body.at.more = 8;
  EXPECT_EQ(wire::length_of(body), with);
  std::byte bytes[88] = {};
  for (std::size_t n = 0; n <= sizeof(bytes); ++n) {
    Body read;
    read.at.key = 99;
    std::memset(bytes, 0, sizeof(bytes));
    EXPECT_EQ(wire::decode(bytes, n, read), n == without) << n;
    EXPECT_EQ(read.at.key, n == without ? 0u : 99u) << n;
    std::memcpy(bytes, &body, sizeof(body));
    EXPECT_EQ(wire::decode(bytes, n, read), n == without || n == with) << n;
    if (n == with) {
      EXPECT_EQ(read.at.address, 5u);
      EXPECT_EQ(read.at.key, 7u);
      EXPECT_EQ(read.at.more, 8u);
    }
  }
}

TEST(decode, bodies_that_end_with_a_target__have_two_lengths) {
  expect_two_lengths<wire::rtr>(40, 64);
  expect_two_lengths<wire::get_request>(56, 80);
}

TEST(decode, questions_about_cards_with_values_that_mean_nothing__are_refused) {
  for (const auto k : {wire::kind::card_ask, wire::kind::card_answer})
    EXPECT_EQ(wire::kind_of(wire::kind_imm(k)), k);
  const auto parses = [](const auto& body) {
    auto read = body;
    return wire::decode(reinterpret_cast<const std::byte*>(&body), sizeof(body), read);
  };
  for (std::uint32_t what = 0; what < 6; ++what)
    for (const std::uint32_t size : {0u, 1u, 40u, 41u, ~0u}) {
      wire::card_ask asked;
      asked.matter = static_cast<wire::card_matter>(what);
      asked.size = size;
      EXPECT_EQ(parses(asked), what >= 1 && what <= 3 && size <= 40);
      wire::card_answer answer;
      answer.result = static_cast<wire::card_result>(what);
      answer.size = size;
      EXPECT_EQ(parses(answer), what <= 4 && size <= 40);
    }
}

TEST(decode, atomics_with_values_that_mean_nothing__are_refused) {
  for (const auto k : {wire::kind::atomic, wire::kind::atomic_end})
    EXPECT_EQ(wire::kind_of(wire::kind_imm(k)), k);
  const auto parses = [](const auto& body) {
    auto read = body;
    return wire::decode(reinterpret_cast<const std::byte*>(&body), sizeof(body), read);
  };
  wire::atomic asked;
  for (std::uint32_t what = 0; what < 4; ++what)
    for (std::uint32_t size = 0; size <= 16; ++size) {
      asked.change.what = what;
      asked.change.size = size;
      EXPECT_EQ(parses(asked), (what == 1 || what == 2) && (size == 4 || size == 8));
    }
  wire::atomic_end answer;
  for (std::uint32_t result = 0; result < 9; ++result) {
    answer.result = static_cast<wire::atomic_result>(result);
    EXPECT_EQ(parses(answer), result <= 5) << result;
  }
}

TEST(decode_extended, shorter_than_its_head__is_refused) {
  std::byte bytes[16] = {};
  const std::byte* data = bytes;
  std::size_t size = sizeof(wire::extended_head) - 1;
  wire::extended_head head;
  EXPECT_FALSE(wire::decode_extended(data, size, head));
  EXPECT_EQ(data, bytes);
}

TEST(extended_head, of__keeps_all_64_bits_of_the_tag) {
  const auto head = wire::extended_head::of(7, 0xfedcba9876543210u);
  EXPECT_EQ(head.tag(), 0xfedcba9876543210u);
  EXPECT_EQ(head.rcomp, 7u);
}
