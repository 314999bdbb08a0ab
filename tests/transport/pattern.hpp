// Bytes that differ by their place and by the seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace transport_test {

inline std::vector<std::uint8_t> pattern(std::size_t size, unsigned seed) {
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    seed = seed * 1664525 + 1013904223;
    bytes[i] = static_cast<std::uint8_t>(seed >> 24);
  }
  return bytes;
}

}  // namespace transport_test
