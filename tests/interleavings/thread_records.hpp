// base/owned under the checker, with a record for each of its threads. Behind checker.hpp, whose
// words come first. Always true: a fiber that goes on has its own number and record.
#pragma once

#include "tests/interleavings/owned_alone.hpp"

namespace lci::test {

// Of the test that runs; it sets them before its threads begin, and takes them away at the end.
inline base::detail::thread_record* records = nullptr;

inline void resume_thread() noexcept {
  if (records == nullptr) return;
  base::detail::thread_id_tls = rl::thread_index();
  base::detail::thread_record_tls = &records[rl::thread_index()];
}

// What threads do that have to be inside one at a time: the checker finds a thread that does not
// see what the last one left. Made and ended by the suite, in before() and after().
template <unsigned THREADS>
struct one_at_a_time {
  base::detail::thread_record of_threads[THREADS];
  rl::var<unsigned> count;
  unsigned expected = 0;  // not seen by the checker

  void begin() {
    count($) = 0;
    for (unsigned i = 0; i < THREADS; ++i) of_threads[i].id = i;
    records = of_threads;
    base::has_asymmetric_fence();
  }
  // By a thread that is inside.
  void add() {
    const unsigned found = count($);
    count($) = found + 1;
    resume_thread();
    ++expected;
  }
  void end() {
    RL_ASSERT(expected == count($));
    records = nullptr;
  }
};

}  // namespace lci::test
