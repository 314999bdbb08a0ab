// The backends of this program, with a counter at their seam: what crosses it is a step, and at a
// chosen step the process kills itself. So a process dies at every step of a protocol without the
// protocol being asked for names of its steps.
//
// steps.cpp takes the place of backends/providers.cpp. A step is a post that was accepted, a
// message or completion just before and just after it is handled, a registration made or ended,
// and, if asked for, every poll. Threads: those of the library. Always true: what is refused with
// retry is no step, so that waiting makes none.
#pragma once

#include <cstddef>

namespace lci::test {

struct steps {
  // From now on this process is killed at its step number `at`, from 1; 0: never.
  static void die_at(long at, bool counts_polls = false) noexcept;
  // Of this process: what was registered with the network and is not deregistered yet.
  static std::size_t live_registrations() noexcept;
};

}  // namespace lci::test
