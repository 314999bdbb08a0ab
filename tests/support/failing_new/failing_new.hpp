// Lets the n-th operator new of a thread fail, in every build: sanitizers own malloc, and still let
// a program replace operator new.
//
// Objects of their own (lci_failing_new) and not part of the test library, since a linker would
// take the replacement into every test. Threads: requests are per thread. Always true: outside a
// request a call costs two thread-local loads and an addition more than before.
#pragma once

#include <cstdint>

namespace lci::test {

// While it lives, the n-th operator new (from 1) of this thread throws std::bad_alloc, or answers
// null in its nothrow form; the ones before and after succeed. A test loops n upwards until a
// scenario is through with fired() false.
class fail_nth_new {
 public:
  explicit fail_nth_new(std::uint64_t n) noexcept;
  ~fail_nth_new();
  fail_nth_new(const fail_nth_new&) = delete;
  fail_nth_new& operator=(const fail_nth_new&) = delete;
  bool fired() const noexcept;
};

// Around what is not to fail in this thread and is no step: what a library of others does. They
// nest.
void pause_failing_new() noexcept;
void resume_failing_new() noexcept;

// What operator new has given out in all threads, and was not given back.
long live_news() noexcept;

}  // namespace lci::test
