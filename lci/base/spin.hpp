// How a blocking call waits: it alternates progress and a spin_wait until the event is there.
// First the core only pauses, because a peer on another core answers within a microsecond; then it
// yields, because the answer may have to come from a thread that has no core.
// Threads: an instance belongs to one thread and one wait; set_oversubscribed() any thread.
// Always true: nothing ever sleeps, so the wait ends as soon as the processor comes back.
//
// Also how a thread behaves that would do what another thread is doing: turn_away.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "lci/base/platform.hpp"

namespace lci::base {

class spin_wait {
 public:
  // About 5 us on a core whose pause takes 40 ns: more than a hand-over between two cores takes,
  // less than a time slice lost to a spinning neighbour costs.
  static constexpr unsigned SPINS = 128;

  // One step of waiting. True: the wait has become a long one, and the thread yielded.
  bool operator()() noexcept {
    if (left_ == 0) {
      sched_yield();
      return true;
    }
    --left_;
    cpu_relax();
    return false;
  }

  // Something arrived: the next thing is likely to be near as well.
  void reset() noexcept { left_ = spins_at_start(); }

  // Set once the number of local ranks is known. With more ranks than cores, the peer that answers
  // is likely to be waiting for this very core, so waiting starts with a yield.
  static void set_oversubscribed(bool on) noexcept { state().store(on, std::memory_order_relaxed); }
  static bool is_oversubscribed() noexcept { return state().load(std::memory_order_relaxed); }

 private:
  static unsigned spins_at_start() noexcept { return is_oversubscribed() ? 0 : SPINS; }
  // Relaxed everywhere: a hint about speed; it publishes no other data.
  static std::atomic<bool>& state() noexcept {
    static std::atomic<bool> oversubscribed{false};
    return oversubscribed;
  }

  unsigned left_ = spins_at_start();
};

// A thread that calls progress again and again while another one polls the device reads the lines
// that the other writes: its counters, its lanes. Pauses, longer from time to time, leave these
// where they are written. Threads: all state is the calling thread's own.
class turn_away {
 public:
  // 0.7 us where a pause takes 45 ns (Intel since 2017). With eight threads on one device 16 pauses
  // gave 1.4 times the rate of none, 4 gave 1.3
  // (docs/decisions/0050-threads-that-share-a-device.md).
  static constexpr std::uint32_t MOST = 16;

  // Another thread is at it. Answers how many pauses were made.
  static std::uint32_t wait() noexcept {
    const std::uint32_t pauses = std::min(pauses_tls + pauses_tls + 1, MOST);
    for (std::uint32_t i = 0; i < pauses; ++i) cpu_relax();
    pauses_tls = pauses;
    return pauses;
  }
  // The calling thread has got its turn, here or elsewhere.
  static void end() noexcept { pauses_tls = 0; }

 private:
  static constinit thread_local std::uint32_t pauses_tls __attribute__((tls_model("initial-exec")));
};

}  // namespace lci::base
