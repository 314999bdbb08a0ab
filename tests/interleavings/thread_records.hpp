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

}  // namespace lci::test
