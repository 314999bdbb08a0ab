// When to call a peer again that has not answered: soon at first, then less and less often. Part of
// a connection. Threads: the connector's, under its lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "lci/base/platform.hpp"

namespace lci::net::connected {

class call_pace {
 public:
  static constexpr std::uint32_t FIRST_MS = 10, LAST_MS = 500;
  // A peer that does not answer may compute; so many calls (about 20 s) are worth a line.
  static constexpr std::uint32_t CALLS_TO_SAY = 45;

  // now: base::cpu_ticks().
  bool is_due(std::uint64_t now) const noexcept { return calls_ == 0 || now >= next_; }
  // One is about to be made.
  void wait_from(std::uint64_t now) noexcept {
    const std::uint64_t ms = base::ticks_per_ms();
    interval_ = std::clamp<std::uint64_t>(interval_ * 2, FIRST_MS * ms, LAST_MS * ms);
    next_ = now + interval_;
  }
  // It was made.
  void count() noexcept { ++calls_; }
  // After all it was not: it is due at once, and no peer has let us wait.
  void discount() noexcept {
    --calls_;
    next_ = 0;
    interval_ /= 2;
  }
  // True once.
  bool is_worth_a_line() noexcept {
    return calls_ == CALLS_TO_SAY && !std::exchange(was_worth_a_line_, true);
  }

 private:
  std::uint64_t next_ = 0, interval_ = 0;
  std::uint32_t calls_ = 0;
  bool was_worth_a_line_ = false;
};

}  // namespace lci::net::connected
