// Facts about the compiler and the processor that the rest of the library relies on.
// Threads: everything here is a pure function of its arguments or of the processor.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include <chrono>
#endif

// Set-up and failure paths: kept out of line and away from the hot code.
#define LCI_COLD __attribute__((cold, noinline))
// The library is built with hidden visibility; this marks what a client may link against.
#define LCI_API __attribute__((visibility("default")))

// Thread sanitizer cannot see an ordering made by membarrier, so code that relies on it uses its
// locked form there.
#if defined(__SANITIZE_THREAD__)
#define LCI_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LCI_TSAN 1
#endif
#endif
#ifndef LCI_TSAN
#define LCI_TSAN 0
#endif

namespace lci::base {

// Bytes that travel together between two cores. Layouts are built for this number.
inline constexpr std::size_t CACHE_LINE = 64;

// Tells the core that it is in a spin loop.
inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A cheap clock that never runs backwards on one host; its unit is unspecified, see ticks_per_ms().
inline std::uint64_t cpu_ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// cpu_ticks() in one millisecond; measured once per process, the first call takes 0.2 ms.
std::uint64_t ticks_per_ms();

// Keeps the compiler from moving memory accesses across this point; the processor may still
// reorder.
inline void compiler_fence() noexcept { asm volatile("" ::: "memory"); }

// Requests the cache line of `p` in a writable state, without waiting for it. On x86-64 by an
// explicit instruction, because compilers turn __builtin_prefetch(p, 1) into a read prefetch unless
// the target is a recent processor. Older processors execute 0F 0D as a no-op (Intel SDM volume 2,
// PREFETCHW; AMD64 has it since its first generation).
inline void prefetch_for_write(const void* p) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 1, 3);
#endif
}

// Goes on once all loads before have their values, where the processor has a cheap instruction for
// it. Orders nothing for other threads. Without it a loop that looks for something is executed
// several times ahead, and all of that is thrown away when the line that it looks at changes.
inline void wait_for_loads() noexcept {
#if defined(__x86_64__)
  asm volatile("lfence" ::: "memory");
#endif
}

constexpr std::size_t align_up(std::size_t n, std::size_t to) noexcept {
  return (n + to - 1) / to * to;
}

}  // namespace lci::base
