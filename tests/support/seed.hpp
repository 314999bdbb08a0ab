// One seed per run, so that a random test can be replayed: LCI_TEST_SEED if set, else drawn once
// and printed. Threads: any, after the first call. Always true: the same seed, salt and build give
// the same sequence.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace lci::test {

inline std::uint64_t test_seed() {
  static const std::uint64_t seed = [] {
    const char* given = std::getenv("LCI_TEST_SEED");
    const std::uint64_t s =
        given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
    std::fprintf(stderr, "seed: LCI_TEST_SEED=%llu\n", static_cast<unsigned long long>(s));
    return s;
  }();
  return seed;
}

// A generator of its own for each thread or rank: equal salts give equal sequences.
inline std::mt19937_64 seeded(std::uint64_t salt) {
  std::seed_seq mix{test_seed() & 0xffffffffu, test_seed() >> 32, salt & 0xffffffffu, salt >> 32};
  return std::mt19937_64(mix);
}

}  // namespace lci::test
