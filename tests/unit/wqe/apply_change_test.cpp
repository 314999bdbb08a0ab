#include "lci/wqe/apply_change.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/support/seed.hpp"

using lci::wqe::atomic_operands;
using lci::wqe::opcode;
using lci::wqe::word_change;

namespace {

// Bit by bit, with the carry in a variable.
template <class T>
T expected(opcode op, T old, const atomic_operands& with) {
  T out = 0;
  bool carry = false;
  for (int i = 0; i < static_cast<int>(8 * sizeof(T)); ++i) {
    const auto bit = [i](std::uint64_t of) { return (of >> i & 1) != 0; };
    const int sum = bit(old) + bit(with.swap_add) + carry;
    if (sum % 2 != 0) out |= T{1} << i;
    carry = sum >= 2 && !(op == opcode::atomic_masked_fa && bit(with.compare_mask));
  }
  if (op == opcode::atomic_fa || op == opcode::atomic_masked_fa) return out;
  out = old;
  for (int i = 0; i < static_cast<int>(8 * sizeof(T)); ++i) {
    const auto bit = [i](std::uint64_t of) { return (of >> i & 1) != 0; };
    const bool is_compared = op == opcode::atomic_cs || bit(with.compare_mask);
    if (is_compared && bit(old) != bit(with.compare)) return old;
    const bool is_written = op == opcode::atomic_cs || bit(with.swap_mask);
    if (is_written) out = static_cast<T>((out & ~(T{1} << i)) | (T{bit(with.swap_add)} << i));
  }
  return out;
}

template <class T>
void check(opcode op, T old, const atomic_operands& with) {
  T words[2] = {old, 77};
  const std::uint64_t answer =
      lci::wqe::apply(lci::wqe::change_of(op, with), static_cast<void*>(words));
  EXPECT_EQ(answer, old);
  EXPECT_EQ(words[0], expected(op, old, with)) << static_cast<int>(op);
  EXPECT_EQ(words[1], 77u);
}

}  // namespace

TEST(apply, random_operands__as_bit_by_bit) {
  auto random = lci::test::seeded(1);
  for (int i = 0; i < 20'000; ++i) {
    // Few bits in masks, and compared words that are often equal.
    const std::uint64_t old = random();
    atomic_operands with;
    with.swap_add = random();
    with.compare = i % 3 == 0 ? random() : old;
    with.swap_mask = random();
    with.compare_mask = i % 2 == 0 ? random() & random() & random() : 0;
    check(opcode::atomic_fa, old, with);
    check(opcode::atomic_cs, old, with);
    check(opcode::atomic_masked_fa, old, with);
    check(opcode::atomic_masked_cs, old, with);
    with.size = 4;
    check(opcode::atomic_masked_fa, static_cast<std::uint32_t>(old), with);
    check(opcode::atomic_masked_cs, static_cast<std::uint32_t>(old), with);
  }
}

TEST(is_sound, two_kinds_and_two_widths) {
  for (std::uint32_t what = 0; what < 5; ++what)
    for (std::uint32_t size = 0; size < 17; ++size)
      EXPECT_EQ(is_sound(word_change{0, 0, 0, 0, what, size}),
                (what == 1 || what == 2) && (size == 4 || size == 8));
}
