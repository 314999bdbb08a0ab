// What a rank does while it waits for the others in a fence: they may need it before they arrive.
// Made by: lci/runtime/meeting. Callers: the bootstraps. Threads: the one that waits.
#pragma once

#include <algorithm>
#include <chrono>

#include "lci/boot/fd.hpp"

namespace lci::boot {

class meanwhile {
 public:
  // A round. True: something happened, so more may follow at once. Makes no call of the bootstrap.
  virtual bool progress() noexcept = 0;
  // Nothing of this rank needs further rounds, neither to reach the others nor to be answered.
  virtual bool is_all_out() const noexcept = 0;

 protected:
  ~meanwhile() = default;
};

// Makes a round, and answers how long to wait before the next one. Null: until the end.
inline deadline after_round(meanwhile* work, const deadline& until) {
  if (work == nullptr) return until;
  // What the rounds wait for announces itself nowhere.
  const int pause_ms = work->progress() ? 0 : 1;
  const int left_ms = until.remaining_ms();
  return deadline::in(
      std::chrono::milliseconds(left_ms < 0 ? pause_ms : std::min(pause_ms, left_ms)));
}

// wait_for() with rounds.
inline bool wait_for(int fd, short events, const deadline& until, meanwhile* work) {
  do {
    if (wait_for(fd, events, after_round(work, until))) return true;
  } while (!until.is_over());
  return false;
}

}  // namespace lci::boot
