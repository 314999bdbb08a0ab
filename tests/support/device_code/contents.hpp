// What a test expects in a buffer, the same for the processor and for a GPU: bytes that follow from
// a seed and their place, so that contents change with every use of a buffer and nothing has to be
// kept to compare with. Callers: kernels.cu, the checks of the accelerator suites, and the mock
// driver, which does what the kernels do. Threads: pure functions.
// Always true: bytes [begin, end) are those of the seed, all others the complement of what they
// would be inside.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#ifdef __CUDACC__
#define LCI_TEST_ANYWHERE __host__ __device__
#else
#define LCI_TEST_ANYWHERE
#endif

namespace lci::test {

// Eight bytes of a seed, the lowest first.
LCI_TEST_ANYWHERE inline std::uint64_t pattern_word(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15ull + index;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull;
  return x ^ (x >> 32);
}

struct contents {
  unsigned char* at = nullptr;
  std::uint64_t count = 0;
  std::uint64_t seed = 0;
  std::uint64_t begin = 0, end = 0;
  std::uint64_t skipped = 0;  // words of the seed in front of the first byte
};

LCI_TEST_ANYWHERE inline unsigned char expected_byte(const contents& what, std::uint64_t i) {
  const std::uint64_t word = pattern_word(what.seed, what.skipped + i / 8);
  const bool inside = i >= what.begin && i < what.end;
  return static_cast<unsigned char>((inside ? word : ~word) >> (i % 8 * 8));
}

struct verdict {
  std::uint64_t wrong = 0;                  // bytes
  std::uint64_t first = ~std::uint64_t{0};  // the lowest of them
  std::uint64_t gave_up = 0;                // 1: the word did not come
};

// The same by the processor. Word by word: under a sanitizer a megabyte by bytes takes long.
inline void fill_here(const contents& what, unsigned char* to) {
  for (std::uint64_t i = 0; i < what.count; i += 8) {
    const std::uint64_t n = std::min<std::uint64_t>(8, what.count - i);
    std::uint64_t word = pattern_word(what.seed, what.skipped + i / 8);
    if (i + n <= what.begin || i >= what.end) word = ~word;
    std::memcpy(to + i, &word, n);
    if (i + n <= what.begin || i >= what.end || (i >= what.begin && i + n <= what.end)) continue;
    for (std::uint64_t k = i; k < i + n; ++k) to[k] = expected_byte(what, k);
  }
}

inline verdict compare_here(const contents& what, const unsigned char* found) {
  std::vector<unsigned char> expected(what.count);
  fill_here(what, expected.data());
  verdict said;
  if (what.count == 0 || std::memcmp(found, expected.data(), what.count) == 0) return said;
  for (std::uint64_t i = what.count; i-- > 0;) {
    if (found[i] == expected[i]) continue;
    ++said.wrong;
    said.first = i;
  }
  return said;
}

// The parameter of every kernel; each uses what it needs.
struct task {
  contents what;
  verdict* out;               // memory of the GPU
  const std::uint64_t* word;  // polled until it is `value`
  std::uint64_t value;
  std::uint64_t patience;  // ns
};

}  // namespace lci::test
