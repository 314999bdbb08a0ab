// What a test does less of under a sanitizer.
#pragma once

#include <cstddef>
#include <vector>

// gcc says it by macros, clang by __has_feature.
#if defined(__has_feature)
#define LCI_TEST_HAS_FEATURE(name) __has_feature(name)
#else
#define LCI_TEST_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || LCI_TEST_HAS_FEATURE(thread_sanitizer)
#define LCI_TEST_TSAN 1
#else
#define LCI_TEST_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__) || LCI_TEST_HAS_FEATURE(address_sanitizer)
#define LCI_TEST_ASAN 1
#else
#define LCI_TEST_ASAN 0
#endif

namespace lci::test {

inline constexpr bool HAS_THREAD_SANITIZER = LCI_TEST_TSAN;
inline constexpr bool HAS_ADDRESS_SANITIZER = LCI_TEST_ASAN;
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
