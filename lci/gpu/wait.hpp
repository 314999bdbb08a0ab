// Waits for a word in memory of this process that peers change: by signals, puts and atomics.
// Callers: kernels, or threads of the process. Threads: any; of a scope the leader looks.
// Always true: what was written before the signal is seen behind the call; a wait ends when the
// condition holds, and else by the abort flag, by the limit counted from when the word changed
// last, by the end of the endpoint or of the peer. The condition is looked at once more before an
// end is reported. The word belongs into the memory of who waits: each look at host memory costs a
// kernel more than a microsecond.
#pragma once

#include <cstdint>
#include <type_traits>

#include "lci/gpu/scope.hpp"
#include "lci/gpu/waiting.hpp"

namespace lci::gpu {

enum class comparison { equal, not_equal, greater, greater_equal, less, less_equal };

template <class T>
LCI_ANYWHERE constexpr bool holds(T a, comparison how, T b) noexcept {
  return how == comparison::equal           ? a == b
         : how == comparison::not_equal     ? a != b
         : how == comparison::greater       ? a > b
         : how == comparison::greater_equal ? a >= b
         : how == comparison::less          ? a < b
                                            : a <= b;
}

namespace detail {

template <class T>
struct word_of {
  static_assert(std::is_integral<T>::value && (sizeof(T) == 4 || sizeof(T) == 8),
                "integers of 4 or 8 bytes");
  using type = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  using value = T;
};

// edge gpu.signal: what was written before the word is seen. Partners are signal_after(),
// signal_alone() on a host, and cards.
template <class T>
LCI_ANYWHERE T see(const T* word) noexcept {
  using bits = typename word_of<T>::type;
  return static_cast<T>(wqe::word_at<bits>(reinterpret_cast<bits*>(const_cast<T*>(word)))
                            .load(std::memory_order_acquire));
}

// With all that ends a wait.
template <class T>
LCI_ANYWHERE_ONCE status wait_long(endpoint_t ep, const T* word, comparison how, T value,
                                   int rank) noexcept {
  patience wait(ep, ended_word(*ep.record, rank), rank);
  for (;;) {
    const T now = see(word);
    if (holds(now, how, value)) return status::ok;
    wait.saw(static_cast<std::uint64_t>(now));
    if (const status s = wait(); s != status::ok)
      return holds(see(word), how, value) ? status::ok : s;
  }
}

// So many looks come before anything else is read but what says whether the call is right, which is
// on its way with the first one.
inline constexpr std::uint32_t FIRST_LOOKS = 64;

template <class T>
LCI_ANYWHERE status wait_here(const endpoint_t& ep, const T* word, comparison how, T value,
                              int rank) noexcept {
  if (const status s = check_handle(ep); s != status::ok) return s;
  const std::uint64_t generation = look_at(&ep.record->generation);
  const std::uint32_t ranks = look_at(&ep.record->ranks);
  bool is_there = holds(see(word), how, value);
  if (generation != ep.generation) return status::bad_endpoint;
  if (rank != ANY_RANK && static_cast<std::uint32_t>(rank) >= ranks) return status::bad_rank;
  for (std::uint32_t i = 0; !is_there && i < FIRST_LOOKS; ++i)
    is_there = holds(see(word), how, value);
  return is_there ? status::ok : wait_long(ep, word, how, value, rank);
}

}  // namespace detail

// Waits until `*word` compares so with `value`. With a rank, that rank's end ends the wait too;
// without, the end of any.
template <class Scope = thread, class T>
LCI_ANYWHERE status wait_until(const endpoint_t& ep, const T* word, comparison how,
                               typename detail::word_of<T>::value value,
                               int rank = ANY_RANK) noexcept {
  return by_leader<Scope>([&] { return detail::wait_here<T>(ep, word, how, value, rank); });
}

// One look: ok, or nothing.
template <class Scope = thread, class T>
LCI_ANYWHERE status test(const endpoint_t& ep, const T* word, comparison how,
                         typename detail::word_of<T>::value value) noexcept {
  return by_leader<Scope>([&] {
    if (const status s = check_endpoint(ep); s != status::ok) return s;
    return holds(detail::see(word), how, value) ? status::ok : status::nothing;
  });
}

}  // namespace lci::gpu
