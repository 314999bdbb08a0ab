// Small numbers for threads: dense from 0, given at a thread's first call, reused after the thread has ended, so that what a thread
// owned (its lanes, its caches) passes to the next one that gets its number.
// Threads: any.
#pragma once

#include <cstdint>

namespace lci::base {

// Threads beyond this many at once all get the number OVERFLOW_THREAD: they share, behind locks.
inline constexpr std::uint32_t MAX_THREADS = 256;
inline constexpr std::uint32_t OVERFLOW_THREAD = MAX_THREADS;

namespace detail {
inline constexpr std::uint32_t NO_THREAD_ID = ~std::uint32_t{0};
extern thread_local std::uint32_t thread_id_tls __attribute__((tls_model("initial-exec")));
std::uint32_t assign_thread_id() noexcept;
}  // namespace detail

// This thread's number; two instructions after the first call.
inline std::uint32_t thread_id() noexcept {
  const std::uint32_t id = detail::thread_id_tls;
  if (id == detail::NO_THREAD_ID) [[unlikely]] return detail::assign_thread_id();
  return id;
}

}  // namespace lci::base
