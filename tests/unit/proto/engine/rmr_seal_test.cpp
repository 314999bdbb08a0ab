// A name with any bit changed, of another rank or of another job is not taken for one that was
// given out.
#include "lci/proto/engine/rmr_seal.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "tests/support/seed.hpp"

namespace lci::proto {
namespace {

struct name {
  std::array<std::uint64_t, 3> words;  // base, check, key
  bool is_good(const rmr_seal& seal, int rank) const {
    return seal.check_of(words[0], words[2], rank) == words[1];
  }
};

// As programs make them: addresses of a heap, slots and generations that count from 1.
name name_of(const rmr_seal& seal, std::mt19937_64& random, int rank) {
  const std::uint64_t base = 0x7f0000000000 + (random() & 0xffffffff0);
  const std::uint64_t key = (random() % 50 + 1) << 32 | (random() % 3000 + 1);
  return {{base, seal.check_of(base, key, rank), key}};
}

}  // namespace

TEST(rmr_seal, every_changed_bit__is_noticed) {
  std::mt19937_64 random(lci::test::test_seed());
  std::size_t accepted = 0, tried = 0;
  while (tried < 1'000'000) {
    const rmr_seal seal = rmr_seal::of({random(), random()});
    const int rank = static_cast<int>(random() % 4096);
    const name good = name_of(seal, random, rank);
    ASSERT_TRUE(good.is_good(seal, rank));
    for (unsigned bit = 0; bit < 192; ++bit, ++tried) {
      name bad = good;
      bad.words[bit / 64] ^= std::uint64_t{1} << bit % 64;
      accepted += bad.is_good(seal, rank) ? 1 : 0;
    }
  }
  EXPECT_EQ(accepted, 0u) << "of " << tried;
}

// Parts of two good names, in the wrong hands or simply invented.
TEST(rmr_seal, mixed_and_guessed_names__are_noticed) {
  std::mt19937_64 random(lci::test::test_seed());
  const rmr_seal seal = rmr_seal::of({random(), random(), random()});
  const rmr_seal other_job = rmr_seal::of({random(), random(), random()});
  std::size_t accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    const name one = name_of(seal, random, 1), two = name_of(seal, random, 1);
    for (std::size_t part = 0; part < 3; ++part) {
      name mixed = one;
      mixed.words[part] = two.words[part];
      if (mixed.words != one.words && mixed.words != two.words)
        accepted += mixed.is_good(seal, 1) ? 1 : 0;
    }
    accepted += one.is_good(seal, 2) || one.is_good(other_job, 1) ? 1 : 0;
    accepted += name{{one.words[0], random(), one.words[2]}}.is_good(seal, 1) ? 1 : 0;
    accepted += name{{one.words[0], one.words[0], one.words[2]}}.is_good(seal, 1) ? 1 : 0;
  }
  EXPECT_EQ(accepted, 0u);
}

TEST(rmr_seal, secret__is_the_same_for_all_and_changes_with_each_word) {
  const rmr_seal seal = rmr_seal::of({1, 2, 3});
  EXPECT_TRUE(seal.is_set());
  EXPECT_FALSE(rmr_seal().is_set());
  EXPECT_EQ(seal.check_of(4096, 5, 1), rmr_seal::of({1, 2, 3}).check_of(4096, 5, 1));
  for (const std::vector<std::uint64_t>& other :
       {std::vector<std::uint64_t>{2, 1, 3}, {1, 2, 4}, {1, 2}, {1, 2, 3, 0}})
    EXPECT_NE(seal.check_of(4096, 5, 1), rmr_seal::of(other).check_of(4096, 5, 1));
}

}  // namespace lci::proto
