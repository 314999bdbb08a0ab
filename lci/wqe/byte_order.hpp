// Between numbers and the big-endian form in which the card has them in memory. A value is swapped,
// never a place: a swap that reads a volatile place several times may see several values.
// Callers: the encoders and decoders of this room. Threads: pure functions.
// Always true: each function is its own inverse.
#pragma once

#include <cstdint>

#include "lci/wqe/anywhere.hpp"

namespace lci::wqe {

LCI_ANYWHERE constexpr bool is_little_endian() noexcept {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  return false;
#else
  return true;
#endif
}

// Compilers make one instruction of each.
LCI_ANYWHERE constexpr std::uint32_t swapped(std::uint32_t v) noexcept {
  return v << 24 | (v & 0xff00u) << 8 | (v >> 8 & 0xff00u) | v >> 24;
}
LCI_ANYWHERE constexpr std::uint64_t swapped(std::uint64_t v) noexcept {
  return std::uint64_t{swapped(static_cast<std::uint32_t>(v))} << 32 |
         swapped(static_cast<std::uint32_t>(v >> 32));
}

// The number whose bytes in memory are those of `v`, highest first; and back.
LCI_ANYWHERE constexpr std::uint32_t be32(std::uint32_t v) noexcept {
  return is_little_endian() ? swapped(v) : v;
}
LCI_ANYWHERE constexpr std::uint64_t be64(std::uint64_t v) noexcept {
  return is_little_endian() ? swapped(v) : v;
}

// The eight bytes of two words that follow each other in memory, as one number to store at once.
LCI_ANYWHERE constexpr std::uint64_t joined(std::uint32_t first, std::uint32_t second) noexcept {
  return is_little_endian() ? std::uint64_t{second} << 32 | first
                            : std::uint64_t{first} << 32 | second;
}

}  // namespace lci::wqe
