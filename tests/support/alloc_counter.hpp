// Counts heap calls of one thread between two points, and lets the n-th allocation of a thread
// fail.
//
// The test binary that links this replaces malloc and its family for the whole process, shared
// libraries included, and passes every call on to the C library. Threads: counts are per thread; a
// counter is read by the thread that made it. Always true: outside a counter or a failure request a
// call costs two thread-local loads more than before.
#pragma once

#include <cstdint>

namespace lci::test {

// False under sanitizers, which own malloc themselves: tests then GTEST_SKIP() <<
// ALLOC_COUNTER_MISSING.
bool has_alloc_counter() noexcept;
inline constexpr const char* ALLOC_COUNTER_MISSING =
    "sanitizers own malloc, so heap calls cannot be counted in this build";

// Heap calls of this thread since the counter was made (operator new and delete included, they call
// malloc and free).
class alloc_counter {
 public:
  alloc_counter() noexcept;
  std::uint64_t allocations() const noexcept;  // malloc, calloc, realloc and the aligned forms
  std::uint64_t frees() const noexcept;        // free() of anything but null
  std::uint64_t calls() const noexcept { return allocations() + frees(); }

 private:
  std::uint64_t allocations_at_start_;
  std::uint64_t frees_at_start_;
};

// While it lives, the n-th allocation (from 1) of this thread fails as if memory had run out; the
// ones before and after succeed. A test loops n upwards until a scenario succeeds with fired()
// false.
class fail_nth_allocation {
 public:
  explicit fail_nth_allocation(std::uint64_t n) noexcept;
  ~fail_nth_allocation();
  fail_nth_allocation(const fail_nth_allocation&) = delete;
  fail_nth_allocation& operator=(const fail_nth_allocation&) = delete;
  bool fired() const noexcept;
};

}  // namespace lci::test
