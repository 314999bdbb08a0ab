// Waits for a word in memory of this process that peers change, or for any or all of several words
// that follow each other: by signals, puts and atomics.
// Callers: kernels, or threads of the process. Threads: any; the leader of a scope polls.
// Always true: after the call, what was written before the signal is visible. A wait ends when the
// condition holds, or else by the abort flag, by the limit counted from the last change of the word
// or of one of the words, or by the end of the endpoint or of the peer. The condition is checked
// once more before an end is reported. Place the word in memory of the one that waits: each read of
// host memory costs a kernel more than a microsecond.
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

// Words in a row that are compared alike; not those whose `skipped` is not 0.
template <class T>
struct word_list {
  const T* words;
  std::uint64_t count;
  const int* skipped;  // null: none is
  comparison how;
  T value;
};

// What one look at the words has found, those from some place on.
struct seen_words {
  std::uint64_t looked_at = 0;
  std::uint64_t holds, misses;  // the first that does, and that does not; `count`: there is none
  std::uint64_t all = 0;        // another number if one of all words is another
};

template <class T>
LCI_ANYWHERE seen_words see_from(const word_list<T>& list, std::uint64_t first) noexcept {
  seen_words out;
  out.holds = out.misses = list.count;
  for (std::uint64_t i = 0; i < list.count; ++i) {
    if (list.skipped != nullptr && list.skipped[i] != 0) continue;
    const T now = see(list.words + i);
    std::uint64_t& found = holds(now, list.how, list.value) ? out.holds : out.misses;
    if (i >= first && found == list.count) found = i;
    out.all = out.all * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(now);
    ++out.looked_at;
  }
  return out;
}

enum class how_many { any, all };
struct found_word {
  status said = status::ok;
  std::uint64_t which = 0;
};

// Of all words each has been seen to hold, maybe at another time than the others.
template <class T>
LCI_ANYWHERE_ONCE found_word wait_for_list(endpoint_t ep, word_list<T> list, how_many wanted,
                                           int rank) noexcept {
  found_word out;
  out.said = rank == ANY_RANK ? check_endpoint(ep) : check_rank(ep, rank);
  if (out.said != status::ok) return out;
  patience wait(ep, ended_word(*ep.record, rank), rank);
  for (;; out.said = wait()) {
    const seen_words seen = see_from(list, out.which);
    if (wanted == how_many::all) {
      out.which = seen.misses;
      if (seen.misses == list.count) return {};
    } else if (seen.looked_at == 0) {
      return {status::nothing, 0};
    } else if (seen.holds != list.count) {
      return {status::ok, seen.holds};
    }
    if (out.said != status::ok) return out;
    wait.saw(seen.all);
  }
}

}  // namespace detail

// Waits until the comparison of `*word` with `value` holds. If a rank is given, its end also ends
// the wait; otherwise the end of any rank does.
template <class Scope = thread, class T>
LCI_ANYWHERE status wait_until(const endpoint_t& ep, const T* word, comparison how,
                               typename detail::word_of<T>::value value,
                               int rank = ANY_RANK) noexcept {
  return by_leader<Scope>([&] { return detail::wait_here<T>(ep, word, how, value, rank); });
}

// Waits until the comparison has held for each of `count` words, except those whose `skipped` is
// not 0. Without any word it returns ok at once. The wait ends in the same ways as wait_until().
template <class Scope = thread, class T>
LCI_ANYWHERE status wait_until_all(const endpoint_t& ep, const T* words, std::uint64_t count,
                                   comparison how, typename detail::word_of<T>::value value,
                                   const int* skipped = nullptr, int rank = ANY_RANK) noexcept {
  const detail::word_list<T> list{words, count, skipped, how, value};
  return by_leader<Scope>(
      [&] { return detail::wait_for_list(ep, list, detail::how_many::all, rank).said; });
}

// Waits until the comparison holds for one of them, and returns the first such word in `which`. A
// caller that wants each of them once marks those that it has had in `skipped`. Without any word it
// returns `nothing` at once.
template <class Scope = thread, class T>
LCI_ANYWHERE status wait_until_any(const endpoint_t& ep, const T* words, std::uint64_t count,
                                   comparison how, typename detail::word_of<T>::value value,
                                   std::uint64_t* which, const int* skipped = nullptr,
                                   int rank = ANY_RANK) noexcept {
  const detail::word_list<T> list{words, count, skipped, how, value};
  const detail::found_word found = by_leader<Scope>(
      [&] { return detail::wait_for_list(ep, list, detail::how_many::any, rank); });
  if (found.said == status::ok) *which = found.which;
  return found.said;
}

// Checks once: ok, or nothing.
template <class Scope = thread, class T>
LCI_ANYWHERE status test(const endpoint_t& ep, const T* word, comparison how,
                         typename detail::word_of<T>::value value) noexcept {
  return by_leader<Scope>([&] {
    if (const status s = check_endpoint(ep); s != status::ok) return s;
    return holds(detail::see(word), how, value) ? status::ok : status::nothing;
  });
}

}  // namespace lci::gpu
