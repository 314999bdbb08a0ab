// What a test does less of under a sanitizer.
#pragma once

#include <cstddef>
#include <vector>

namespace lci::test {

#ifdef __SANITIZE_THREAD__
inline constexpr bool HAS_THREAD_SANITIZER = true;
#else
inline constexpr bool HAS_THREAD_SANITIZER = false;
#endif
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool HAS_ADDRESS_SANITIZER = true;
#else
inline constexpr bool HAS_ADDRESS_SANITIZER = false;
#endif
// A test takes ten times as long.
inline constexpr bool IS_SANITIZED = HAS_THREAD_SANITIZER || HAS_ADDRESS_SANITIZER;

// Of cases that run in one thread, one in `step` is enough for the sanitizer that looks at threads:
// a sample keeps the instrumented code compiled and run.
template <class Case>
std::vector<Case> sample_of_single_threaded(std::vector<Case> all, std::size_t step) {
  if (!HAS_THREAD_SANITIZER) return all;
  std::vector<Case> some;
  for (std::size_t i = 0; i < all.size(); i += step) some.push_back(all[i]);
  return some;
}

}  // namespace lci::test
