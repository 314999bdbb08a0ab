// Lets the n-th operator new of a thread fail: sanitizers own malloc, and still let a program
// replace operator new, except for clang's thread sanitizer.
//
// Objects of their own (lci_failing_new) and not part of the test library, since a linker would
// take the replacement into every test. Threads: requests are per thread. Always true: outside a
// request a call costs three thread-local loads and an addition more than before.
#pragma once

#include <cstdint>

#include "tests/support/sanitized.hpp"

namespace lci::test {

// False: no operator new ever fails, and none is counted.
#if defined(__clang__)
inline constexpr bool CAN_NEW_FAIL = !HAS_THREAD_SANITIZER;
#else
inline constexpr bool CAN_NEW_FAIL = true;
#endif

// While it lives, the n-th operator new (from 1) of this thread throws std::bad_alloc, or answers
// null in its nothrow form; the ones before and after succeed. 0: none fails. A test loops n
// upwards until a scenario is through with fired() false.
class fail_nth_new {
 public:
  explicit fail_nth_new(std::uint64_t n) noexcept;
  ~fail_nth_new();
  fail_nth_new(const fail_nth_new&) = delete;
  fail_nth_new& operator=(const fail_nth_new&) = delete;
  bool fired() const noexcept;
  // Calls since it was made, the failed one included.
  std::uint64_t count() const noexcept;
};

// Around what is not to fail in this thread, does not count and is no step: what a library of
// others does. They nest.
void pause_failing_new() noexcept;
void resume_failing_new() noexcept;

// While it lives, each operator new and delete of this thread first calls see(with); those that
// see() uses itself do not. They do not nest.
class on_each_new {
 public:
  on_each_new(void (*see)(void* with), void* with) noexcept;
  ~on_each_new();
  on_each_new(const on_each_new&) = delete;
  on_each_new& operator=(const on_each_new&) = delete;
};

// What operator new has given out in all threads, and was not given back.
long live_news() noexcept;

}  // namespace lci::test

// The same for fakes, which stand for what knows no operator new and are linked without this as
// well: 1 pauses, -1 resumes.
extern "C" void lci_spare_from_failing_new(int change) noexcept;
