// Copies a few bytes without a call, which would cost as much as the rest of a small message.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace lci::base {

// Up to so many bytes copy_small() calls nothing.
inline constexpr std::size_t COPIED_WITHOUT_CALL = 32;

// Larger ones go in pieces of 16 bytes where another core has just read what is written, or written
// what is read. memcpy() takes 32 or 64 bytes at a time, which crosses from one line to the next
// and then waits for both: of a put of 48 bytes 200 of 540 ns. From 1 KiB on it depends on the
// processor (docs/decisions/0070-lines-of-a-slot.md).
inline constexpr std::size_t COPIED_IN_PIECES = 512;
[[gnu::noinline]] inline void copy_in_pieces(std::byte* to, const std::byte* from,
                                             std::size_t size) noexcept {
  std::size_t i = 0;
  for (; i + 64 <= size; i += 64) {
    std::memcpy(to + i, from + i, 16);
    std::memcpy(to + i + 16, from + i + 16, 16);
    std::memcpy(to + i + 32, from + i + 32, 16);
    std::memcpy(to + i + 48, from + i + 48, 16);
  }
  for (; i + 16 <= size; i += 16) std::memcpy(to + i, from + i, 16);
  std::memcpy(to + size - 16, from + size - 16, 16);  // overlaps the one before
}

inline void copy_small(void* to, const void* from, std::size_t size) noexcept {
  auto* t = static_cast<std::byte*>(to);
  const auto* f = static_cast<const std::byte*>(from);
  if (size == 8) {
    std::memcpy(t, f, 8);
  } else if (size > COPIED_IN_PIECES) {
    std::memcpy(t, f, size);
  } else if (size > COPIED_WITHOUT_CALL) {
    copy_in_pieces(t, f, size);
  } else if (size >= 16) {
    std::memcpy(t, f, 16);
    std::memcpy(t + size - 16, f + size - 16, 16);  // the two halves overlap unless size is 32
  } else if (size >= 8) {
    std::memcpy(t, f, 8);
    std::memcpy(t + size - 8, f + size - 8, 8);
  } else if (size >= 4) {
    std::memcpy(t, f, 4);
    std::memcpy(t + size - 4, f + size - 4, 4);
  } else {
    for (std::size_t i = 0; i < size; ++i) t[i] = f[i];
  }
}

// Stores two adjacent words, in one store where the processor can. A later load of both is then
// served from the store buffer; after two stores it would have to wait for the cache.
inline void store_pair(void* to, std::uint64_t first, std::uint64_t second) noexcept {
#if defined(__x86_64__)
  _mm_storeu_si128(static_cast<__m128i*>(to),
                   _mm_set_epi64x(static_cast<long long>(second), static_cast<long long>(first)));
#else
  const std::uint64_t words[2] = {first, second};
  std::memcpy(to, words, sizeof(words));
#endif
}

}  // namespace lci::base
