// Calls of this process that have waited for a while, for whoever asks what it waits for. A call
// enters itself when it first gives its processor away, so one that ends before costs nothing.
// Threads: enter() and leave() by the thread that waits; look() any, also in a signal handler.
// Always true: what is seen is a copy, so nobody looks into a stack that has gone.
#pragma once

#include <cstdint>

#include "lci/base/report.hpp"

namespace lci::base {

struct waiting_call {
  const char* what = "";         // for people; a literal
  const void* object = nullptr;  // completion object that ends it
  std::int32_t rank = ANYBODY;   // with whom, where no object says
  std::uint64_t tag = 0, size = 0;
  std::uint8_t refusal = 0;  // errorcode_t of a post that is tried again and again

  static constexpr std::int32_t ANYBODY = -1;
};

// Calls inside each other that one thread can have here; more are not entered, nor are those of
// threads beyond MAX_THREADS.
inline constexpr unsigned MOST_WAITING = 4;

void enter_waiting(const waiting_call& call) noexcept;
// The youngest of this thread.
void leave_waiting() noexcept;
void report_waiting(report::sheet& to) noexcept;

// For a call that waits by a way of its own: from its beginning to its end.
class waiting_scope {
 public:
  explicit waiting_scope(const char* what) noexcept { enter_waiting({.what = what}); }
  ~waiting_scope() { leave_waiting(); }
  waiting_scope(const waiting_scope&) = delete;
  waiting_scope& operator=(const waiting_scope&) = delete;
};

}  // namespace lci::base
