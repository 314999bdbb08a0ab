// The calls of this process that have waited for a while, for a reader that asks what they wait
// for. A call enters itself when it first yields its processor, so one that ends before costs
// nothing. Threads: enter_waiting() and leave_waiting() by the thread that waits; report_waiting()
// any, also in a signal handler. Always true: a reader sees a copy, never the stack of a call that
// may have ended.
#pragma once

#include <cstdint>

#include "lci/base/report.hpp"

namespace lci::base {

struct waiting_call {
  const char* what = "";         // for people; a literal
  const void* object = nullptr;  // completion object that ends it
  std::int32_t rank = ANYBODY;   // the peer, where no object names it
  std::uint64_t tag = 0, size = 0;
  std::uint8_t refusal = 0;  // errorcode_t of a post that is retried again and again

  static constexpr std::int32_t ANYBODY = -1;
};

// How many nested calls of one thread can be listed; more are not entered, nor are those of threads
// beyond MAX_THREADS.
inline constexpr unsigned MOST_WAITING = 4;

void enter_waiting(const waiting_call& call) noexcept;
// Removes this thread's latest entry.
void leave_waiting() noexcept;
void report_waiting(report::sheet& to) noexcept;

// For a call that waits in its own way: listed from its beginning to its end.
class waiting_scope {
 public:
  explicit waiting_scope(const char* what) noexcept { enter_waiting({.what = what}); }
  ~waiting_scope() { leave_waiting(); }
  waiting_scope(const waiting_scope&) = delete;
  waiting_scope& operator=(const waiting_scope&) = delete;
};

}  // namespace lci::base
