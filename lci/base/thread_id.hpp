// Small numbers for threads: dense from 0, given at a thread's first call, reused after the thread
// has ended, so that what a thread owned (its lanes, its caches) passes to the next one that gets
// its number. Each thread also has a record in which it announces what it is inside of; base/owned
// reads and writes it. Called by all code that keeps state per thread. Threads: any. Always true:
// two live threads never share a record; a record outlives its thread. Code that must recognise a
// thread, rather than keep state for it, uses its serial number.
#pragma once

#include <atomic>
#include <cstdint>

#include "lci/base/platform.hpp"

namespace lci::base {

// Threads beyond this many at once all get the number OVERFLOW_THREAD; what they share is locked.
// So do threads whose end cannot be noticed, since the program has taken all keys of the thread
// library.
inline constexpr std::uint32_t MAX_THREADS = 256;
inline constexpr std::uint32_t OVERFLOW_THREAD = MAX_THREADS;

namespace detail {
inline constexpr std::uint32_t NO_THREAD_ID = ~std::uint32_t{0};

// Written by its own thread only; read by threads that want to take what it owns.
struct alignas(CACHE_LINE) thread_record {
  // Nested visits of owned things by one thread. One more is refused, which callers treat like any
  // other "not now".
  static constexpr std::uint32_t MAX_INSIDE = 91;

  std::uint32_t id = 0;
  std::atomic<std::uint32_t> depth{0};      // entries of inside[] that count
  std::atomic<const void*> brief{nullptr};  // one more, for visits in which no such visit begins
  std::atomic<const void*> inside[MAX_INSIDE] = {};
  thread_record* next_free = nullptr;  // links spare records of overflow threads

  bool holds(const void* what) const noexcept {
    // edge owned.leave: a taker that finds the visitor outside sees what it wrote; partner is
    // leave(). Sequentially consistent for the locked form of base/owned.
    if (brief.load(std::memory_order_seq_cst) == what) return true;
    const std::uint32_t count = depth.load(std::memory_order_seq_cst);
    // Downwards, as visits move when others end: one that has moved meanwhile is still to come.
    for (std::uint32_t i = count; i-- > 0;) {
      // edge owned.leave, for a visit that ended out of order: partner is owned::close_gap(). edge
      // owned.moved: a taker that finds another visit in its place finds it further down; partners
      // are those that enter.
      if (inside[i].load(std::memory_order_acquire) == what) return true;
    }
    return false;
  }
};

// constinit: without it, every use would call a function that might have to initialise them.
extern constinit thread_local std::uint32_t thread_id_tls
    __attribute__((tls_model("initial-exec")));
extern constinit thread_local thread_record* thread_record_tls
    __attribute__((tls_model("initial-exec")));
std::uint32_t assign_thread_id() noexcept;

extern constinit thread_local std::uint64_t thread_serial_tls
    __attribute__((tls_model("initial-exec")));
std::uint64_t assign_thread_serial() noexcept;
}  // namespace detail

// The number of this thread; two instructions after the first call.
inline std::uint32_t thread_id() noexcept {
  const std::uint32_t id = detail::thread_id_tls;
  if (id == detail::NO_THREAD_ID) [[unlikely]]
    return detail::assign_thread_id();
  return id;
}

// False: thread_id() would have to give it one.
inline bool has_thread_id() noexcept { return detail::thread_id_tls != detail::NO_THREAD_ID; }

// Identifies this thread beyond its lifetime: from 1, never given twice.
inline std::uint64_t thread_serial() noexcept {
  const std::uint64_t serial = detail::thread_serial_tls;
  if (serial == 0) [[unlikely]]
    return detail::assign_thread_serial();
  return serial;
}

// True if no other thread that has ever called thread_id() of this library is alive: any other
// thread there is has not used lci.
LCI_COLD bool is_only_thread() noexcept;

}  // namespace lci::base
