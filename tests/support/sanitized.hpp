// What a test does less of under a sanitizer.
#pragma once

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

// Of a function that writes what nobody else sees: a loop over many bytes, say.
#define LCI_TEST_UNSANITIZED __attribute__((no_sanitize("address"), no_sanitize("thread")))

namespace lci::test {

inline constexpr bool HAS_THREAD_SANITIZER = LCI_TEST_TSAN;
inline constexpr bool HAS_ADDRESS_SANITIZER = LCI_TEST_ASAN;
// A test takes ten times as long.
inline constexpr bool IS_SANITIZED = HAS_THREAD_SANITIZER || HAS_ADDRESS_SANITIZER;

}  // namespace lci::test
