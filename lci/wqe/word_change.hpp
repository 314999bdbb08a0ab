// What an atomic request makes of a word, in the terms of extended atomics (masked fetch and add,
// masked compare and swap), of which all others are special forms.
// Callers: apply_change.hpp; code that hands such a request on. Threads: pure functions. Always
// true: a word of 4 bytes is changed by the low halves of the operands.
#pragma once

#include <cstdint>

#include "lci/wqe/anywhere.hpp"

namespace lci::wqe {

// 40 bytes, as they travel between ranks (docs/wire.md).
struct word_change {
  static constexpr std::uint32_t ADD = 1, SWAP = 2;

  std::uint64_t value = 0;    // what is added, or written
  std::uint64_t compare = 0;  // SWAP only, as swap_mask
  std::uint64_t swap_mask = 0;
  std::uint64_t compare_mask = 0;  // of ADD: the field boundary
  std::uint32_t what = ADD;
  std::uint32_t size = 8;  // bytes of the word: 4 or 8
};
static_assert(sizeof(word_change) == 40);

LCI_ANYWHERE constexpr bool is_sound(const word_change& c) noexcept {
  return (c.what == word_change::ADD || c.what == word_change::SWAP) &&
         (c.size == 4 || c.size == 8);
}

// What the word is afterwards. Fields of an addition end at the bits of the boundary: nothing is
// carried over them.
template <class T>
LCI_ANYWHERE constexpr T changed(const word_change& by, T old) noexcept {
  const T value = static_cast<T>(by.value), mask = static_cast<T>(by.compare_mask);
  if (by.what == word_change::ADD)
    return static_cast<T>(((old & ~mask) + (value & ~mask)) ^ ((old ^ value) & mask));
  if (((old ^ static_cast<T>(by.compare)) & mask) != 0) return old;
  const T written = static_cast<T>(by.swap_mask);
  return static_cast<T>((old & ~written) | (value & written));
}

}  // namespace lci::wqe
