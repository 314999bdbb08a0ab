// Contributions of ranks that every rank can compute, and operators on them, for the tests of this
// folder, and whether calls are compared. Immutable.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "lci.hpp"

namespace lci::test {

// Item i of what rank r contributes in round `salt`.
inline uint64_t item_of(int rank, size_t i, uint64_t salt = 0) {
  uint64_t x =
      (static_cast<uint64_t>(rank) + 1) * 0x9e3779b97f4a7c15u + i * 0xd1342543de82ef95u + salt;
  x ^= x >> 29;
  return x * 0xbf58476d1ce4e5b9u;
}

inline std::vector<uint64_t> contribution(int rank, size_t count, uint64_t salt = 0) {
  std::vector<uint64_t> items(count);
  for (size_t i = 0; i < count; ++i) items[i] = item_of(rank, i, salt);
  return items;
}

// What all ranks contribute together, added up.
inline std::vector<uint64_t> sum_of_all(size_t count, uint64_t salt = 0) {
  std::vector<uint64_t> sum(count, 0);
  for (int rank = 0; rank < get_rank_n(); ++rank) {
    for (size_t i = 0; i < count; ++i) sum[i] += item_of(rank, i, salt);
  }
  return sum;
}

// Do ranks compare their calls of collectives? As docs say, not as the library finds out.
inline bool compares_calls() {
  const char* const text = std::getenv("LCI_CHECK_COLLECTIVES");
#ifdef LCI_DEBUG
  return text == nullptr || std::strcmp(text, "0") != 0;
#else
  return text != nullptr && std::strcmp(text, "1") == 0;
#endif
}

// Wrong in every bit when an item is left out or taken twice.
inline void add_u64(const void* left, const void* right, void* dst, size_t n) {
  const auto* a = static_cast<const uint64_t*>(left);
  const auto* b = static_cast<const uint64_t*>(right);
  for (size_t i = 0; i < n; ++i) static_cast<uint64_t*>(dst)[i] = a[i] + b[i];
}

// Counts of 8-byte items: nothing, one, an odd number, and around the limits between protocols.
inline const size_t COUNTS[] = {0, 1, 7, 1013, 1014, 1015, 12800, 40000};

// Of no bytes there may be no address.
inline bool are_same(const void* a, const void* b, size_t size) {
  return size == 0 || std::memcmp(a, b, size) == 0;
}

}  // namespace lci::test
