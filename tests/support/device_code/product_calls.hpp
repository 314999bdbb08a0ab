// Calls of kernels over endpoints of the library that name memory of a rank: each caller makes them
// and looks at what came of them. Callers: product_kernels.cu, and tests/accelerator/product in
// threads. Threads: all members of a caller. Always true: all ranks run the same kind with as many
// callers, caller n of a rank works with caller n of the next and of the one before.
#pragma once

#include "tests/support/device_code/product_task.hpp"

namespace lci::test::product {

// Sizes around what travels in a request.
template <class Scope>
LCI_ANYWHERE_ONCE fault put_and_get(const task& t, const caller& who) {
  const std::uint64_t sizes[] = {1, 8, 220, 221, MOST};
  for (std::uint64_t turn = 0; turn < 10; ++turn) {
    const std::uint64_t size = sizes[turn / 2], seed = seed_of(t.me, who, turn);
    const gpu::key_t& own = turn % 2 == 0 ? t.own : t.plain;
    fill<Scope>(bytes(t, who, OUT), size, seed);
    LCI_TEST_OK(gpu::put<Scope>(t.first, t.to, at(t.there, who, IN), at(own, who, OUT), size));
    LCI_TEST_OK(gpu::quiet<Scope>(t.first, t.to));
    fill<Scope>(bytes(t, who, BACK), size, seed + 1);
    LCI_TEST_OK(gpu::get<Scope>(t.second, t.to, at(own, who, BACK), at(t.there, who, IN), size));
    LCI_TEST_OK(gpu::quiet<Scope>(t.second));
    LCI_TEST_TRUE(is_filled(bytes(t, who, BACK), size, seed));
  }
  return {};
}

// Two halves in turns: the rank before may be one turn ahead.
template <class Scope>
LCI_ANYWHERE_ONCE fault put_signal(const task& t, const caller& who) {
  const std::uint64_t sizes[] = {8, 100, MOST / 2};
  for (std::uint64_t turn = 1; turn <= 6; ++turn) {
    const std::uint64_t size = sizes[turn % 3], half = turn % 2 * (MOST / 2);
    fill<Scope>(bytes(t, who, OUT), size, seed_of(t.me, who, turn));
    const bool adds = turn > 3;
    LCI_TEST_OK(gpu::put_signal<Scope>(t.first, t.to, at(t.there, who, IN + half),
                                       at(t.own, who, OUT), size, at(t.there, who, WORDS),
                                       adds ? 1 : turn,
                                       adds ? gpu::signal_op::add : gpu::signal_op::set));
    LCI_TEST_OK(gpu::wait_until<Scope>(t.second, words(t, who), gpu::comparison::greater_equal,
                                       turn, t.of));
    LCI_TEST_TRUE(is_filled(bytes(t, who, IN + half), size, seed_of(t.of, who, turn)));
    LCI_TEST_OK(gpu::quiet<Scope>(t.first, t.to));
  }
  return {};
}

struct long_value {
  unsigned char bytes[100];
};

// Values that come before a signal, and the same as the writer reads them back.
template <class Scope>
LCI_ANYWHERE_ONCE fault values(const task& t, const caller& who) {
  const std::uint64_t seed = seed_of(t.me, who, 1), from = seed_of(t.of, who, 1);
  long_value many;
  for (std::uint64_t i = 0; i < sizeof(many); ++i) many.bytes[i] = byte_of(seed, i);
  const auto four = static_cast<std::uint32_t>(seed * 3);
  LCI_TEST_OK(gpu::put_value<Scope>(t.first, t.to, at(t.there, who, IN), seed));
  LCI_TEST_OK(gpu::put_value<Scope>(t.first, t.to, at(t.there, who, IN + 8), four));
  LCI_TEST_OK(gpu::put_value<Scope>(t.first, t.to, at(t.there, who, IN + 16), many));
  LCI_TEST_OK(gpu::fence<Scope>(t.first, t.to));
  LCI_TEST_OK(gpu::signal<Scope>(t.first, t.to, at(t.there, who, WORDS), 1));
  LCI_TEST_OK(gpu::wait_until<Scope>(t.second, words(t, who), gpu::comparison::equal, 1, t.of));
  const auto* const in = reinterpret_cast<const std::uint64_t*>(bytes(t, who, IN));
  LCI_TEST_TRUE(gpu::look_at(in) == from);
  LCI_TEST_TRUE(gpu::look_at(reinterpret_cast<const std::uint32_t*>(in + 1)) ==
                static_cast<std::uint32_t>(from * 3));
  LCI_TEST_TRUE(is_filled(bytes(t, who, IN + 16), sizeof(many), from));
  std::uint64_t eight = 0;
  std::uint32_t back = 0;
  unsigned char one = 0;
  LCI_TEST_OK(gpu::get_value<Scope>(t.second, t.to, at(t.there, who, IN), &eight));
  LCI_TEST_TRUE(eight == seed);
  LCI_TEST_OK(gpu::get_value<Scope>(t.second, t.to, at(t.there, who, IN + 8), &back));
  LCI_TEST_TRUE(back == four);
  LCI_TEST_OK(gpu::get_value<Scope>(t.second, t.to, at(t.there, who, IN + 16 + 37), &one));
  LCI_TEST_TRUE(one == byte_of(seed, 37));
  return {};
}

// The operations whose old value the caller waits for, and those that give none.
template <class Scope, class T>
LCI_ANYWHERE_ONCE fault atomics_that_answer(const task& t, const gpu::place_t& word) {
  const gpu::endpoint_t& ep = t.first;
  T old = 0;
  LCI_TEST_OK(gpu::set<Scope>(ep, t.to, word, T{6}));
  LCI_TEST_OK(gpu::fetch<Scope>(ep, t.to, word, &old));
  LCI_TEST_TRUE(old == 6);
  LCI_TEST_OK(gpu::fetch_add<Scope>(ep, t.to, word, T{4}, &old));
  LCI_TEST_TRUE(old == 6);
  LCI_TEST_OK(gpu::compare_swap<Scope>(ep, t.to, word, T{10}, T{12}, &old));
  LCI_TEST_TRUE(old == 10);
  LCI_TEST_OK(gpu::compare_swap<Scope>(ep, t.to, word, T{10}, T{13}, &old));
  LCI_TEST_TRUE(old == 12);
  LCI_TEST_OK(gpu::swap<Scope>(ep, t.to, word, T{0x0ff0}, &old));
  LCI_TEST_TRUE(old == 12);
  LCI_TEST_OK(gpu::fetch_and<Scope>(ep, t.to, word, T{0xff00}, &old));
  LCI_TEST_TRUE(old == 0x0ff0);
  LCI_TEST_OK(gpu::fetch_or<Scope>(ep, t.to, word, T{0xf}, &old));
  LCI_TEST_TRUE(old == 0x0f00);
  LCI_TEST_OK(gpu::fetch_xor<Scope>(ep, t.to, word, T{0xff}, &old));
  LCI_TEST_TRUE(old == 0x0f0f);
  LCI_TEST_OK(gpu::add<Scope>(ep, t.to, word, T{1}));
  LCI_TEST_OK(gpu::and_<Scope>(ep, t.to, word, T{0x0ff1}));
  LCI_TEST_OK(gpu::or_<Scope>(ep, t.to, word, T{0x1000}));
  LCI_TEST_OK(gpu::xor_<Scope>(ep, t.to, word, T{1}));
  LCI_TEST_OK(gpu::quiet<Scope>(ep, t.to));
  LCI_TEST_OK(gpu::get_value<Scope>(ep, t.to, word, &old));
  LCI_TEST_TRUE(old == 0x1ff0);
  return {};
}

// The same with old values that land in registered memory, one behind the other.
template <class Scope, class T>
LCI_ANYWHERE_ONCE fault atomics_that_land(const task& t, const gpu::place_t& word,
                                          const caller& who) {
  const gpu::endpoint_t& ep = t.first;
  const auto old = [&](std::uint64_t i) { return at(t.own, who, BACK + i * sizeof(T)); };
  LCI_TEST_OK(gpu::set<Scope>(ep, t.to, word, T{10}));
  LCI_TEST_OK(gpu::fetch_add<Scope>(ep, t.to, word, T{2}, old(0)));
  LCI_TEST_OK(gpu::compare_swap<Scope>(ep, t.to, word, T{12}, T{0xf0}, old(1)));
  LCI_TEST_OK(gpu::swap<Scope>(ep, t.to, word, T{0xff}, old(2)));
  LCI_TEST_OK(gpu::fetch_and<Scope>(ep, t.to, word, T{0x0f}, old(3)));
  LCI_TEST_OK(gpu::fetch_or<Scope>(ep, t.to, word, T{0xf00}, old(4)));
  LCI_TEST_OK(gpu::fetch_xor<Scope>(ep, t.to, word, T{0xff}, old(5)));
  LCI_TEST_OK(gpu::fetch_add<Scope>(ep, t.to, word, T{0}, old(6)));
  LCI_TEST_OK(gpu::quiet<Scope>(ep, t.to));
  const T expected[] = {10, 12, 0xf0, 0xff, 0x0f, 0xf0f, 0xff0};
  const T* const landed = reinterpret_cast<const T*>(bytes(t, who, BACK));
  for (int i = 0; i < 7; ++i) LCI_TEST_TRUE(gpu::look_at(landed + i) == expected[i]);
  return {};
}

template <class Scope>
LCI_ANYWHERE_ONCE fault atomics(const task& t, const caller& who) {
  const gpu::place_t eight = at(t.there, who, WORDS), four = at(t.there, who, WORDS + 8);
  LCI_TEST_PASS((atomics_that_answer<Scope, std::uint64_t>(t, eight)));
  LCI_TEST_PASS((atomics_that_answer<Scope, std::uint32_t>(t, four)));
  LCI_TEST_PASS((atomics_that_land<Scope, std::uint64_t>(t, eight, who)));
  LCI_TEST_PASS((atomics_that_land<Scope, std::uint32_t>(t, four, who)));
  std::uint32_t beside = 1;
  LCI_TEST_OK(gpu::get_value<Scope>(t.first, t.to, at(t.there, who, WORDS + 12), &beside));
  LCI_TEST_TRUE(beside == 0);
  // One word for all.
  std::uint64_t old = 0, before = 0;
  for (std::uint64_t i = 0; i < ADDITIONS; ++i) {
    LCI_TEST_OK(gpu::fetch_add<Scope>(t.first, t.to, {t.there, SUM}, std::uint64_t{1}, &old));
    LCI_TEST_TRUE(i == 0 || old > before);
    before = old;
    LCI_TEST_OK(gpu::add<Scope>(t.first, t.to, {t.there, SUM}, std::uint64_t{1}));
  }
  LCI_TEST_OK(gpu::quiet<Scope>(t.first, t.to));
  return {};
}

// Four words, the last one first.
template <class Scope>
LCI_ANYWHERE_ONCE fault several_words(const task& t, const caller& who) {
  constexpr std::uint64_t COUNT = 4;
  for (std::uint64_t i = COUNT; i-- > 0;)
    LCI_TEST_OK(gpu::signal<Scope>(t.first, t.to, at(t.there, who, WORDS + 8 * i), 7));
  int skipped[COUNT] = {};
  for (std::uint64_t i = 0; i < COUNT; ++i) {
    std::uint64_t which = COUNT;
    LCI_TEST_OK(gpu::wait_until_any<Scope>(t.second, words(t, who), COUNT, gpu::comparison::equal,
                                           7, &which, skipped, t.of));
    LCI_TEST_TRUE(which < COUNT && skipped[which] == 0);
    skipped[which] = 1;
  }
  std::uint64_t which = COUNT;
  LCI_TEST_SAYS(gpu::wait_until_any<Scope>(t.second, words(t, who), COUNT, gpu::comparison::equal,
                                           7, &which, skipped, t.of),
                status::nothing);
  LCI_TEST_OK(gpu::wait_until_all<Scope>(t.second, words(t, who), COUNT, gpu::comparison::equal, 7,
                                         nullptr, t.of));
  LCI_TEST_OK(gpu::test<Scope>(t.second, words(t, who), gpu::comparison::equal, 7));
  LCI_TEST_SAYS(gpu::test<Scope>(t.second, words(t, who), gpu::comparison::equal, 8),
                status::nothing);
  return {};
}

// One caller of each rank: its number of the round is there behind the barrier.
template <class Scope>
LCI_ANYWHERE_ONCE fault barriers(const task& t) {
  const auto* const own = reinterpret_cast<const std::uint64_t*>(t.memory + BARRIER);
  const auto* const told = reinterpret_cast<const std::uint64_t*>(t.memory + ROUNDS);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    LCI_TEST_OK(gpu::put_value<Scope>(t.first, t.to, {t.there, ROUNDS}, round));
    LCI_TEST_OK(gpu::barrier<Scope>(t.first, t.barrier_words, own, 2 * round - 1));
    LCI_TEST_TRUE(gpu::look_at(told) == round);
    LCI_TEST_OK(gpu::barrier<Scope>(t.first, t.barrier_words, own, 2 * round));
  }
  return {};
}

}  // namespace lci::test::product
