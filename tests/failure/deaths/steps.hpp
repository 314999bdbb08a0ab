// The backends of this program, with a counter at their seam: what crosses it is a step, and at a
// chosen step the process kills itself. So a process dies at every step of a protocol without the
// protocol being asked for names of its steps.
//
// steps.cpp takes the place of backends/providers.cpp. A step is a post that was accepted, a
// message or completion just before and just after it is handled, and, if asked for, every poll.
// Threads: those of the library. Always true: what is refused with retry is no step, so that
// waiting makes none; nor is a registration, which a post that is refused makes and ends. What was
// accepted is also summed by the way it took, which shows the protocol.
#pragma once

#include <cstddef>

namespace lci::test {

struct steps {
  // Of the bytes of a post: inline, in a packet of the library, in the caller's buffer as one
  // message, by a write or a read of the peer's memory.
  enum class way { in_line, packet, buffer, write, read };
  static constexpr int WAYS = 5;
  // What the posts of this process have carried so, in bytes.
  static std::size_t carried(way by) noexcept;

  // From now on this process is killed at its step number `at`, from 1; 0: never.
  static void die_at(long at, bool counts_polls = false) noexcept;
  // Of this process: what was registered with the network and is not deregistered yet.
  static std::size_t live_registrations() noexcept;
};

}  // namespace lci::test
