// How deep the calling thread is inside of handlers: counted by whatever may run code of the
// program, which is a round of progress and a post that signals by itself. A round that a handler
// makes is one deeper than the one that runs the handler, on whatever device. Threads: all state is
// the calling thread's own. Always true: the depth is that of the innermost round that is going on;
// 0 outside of all.
#pragma once

#include <cstdint>

#include "lci/base/platform.hpp"
#include "lci/base/thread_id.hpp"
#include "lci/errors.hpp"

namespace lci::proto {

// What attribute max_handler_depth may be. A round of progress visits two things that are owned, a
// route and a network, and handlers at the greatest depth make one more round.
constexpr int MAX_HANDLER_DEPTH = 32;
static_assert(2 * (MAX_HANDLER_DEPTH + 1) + 8 <= base::detail::thread_record::MAX_INSIDE);

// constinit: without it every use would call a function that might have to initialise it.
extern constinit thread_local std::uint32_t handler_depth_tls
    __attribute__((tls_model("initial-exec")));

// Handlers that this round runs are at depth value().
class handler_depth {
 public:
  handler_depth() noexcept : value_(++handler_depth_tls) {}
  ~handler_depth() { --handler_depth_tls; }
  handler_depth(const handler_depth&) = delete;
  handler_depth& operator=(const handler_depth&) = delete;
  std::uint32_t value() const noexcept { return value_; }

  static std::uint32_t now() noexcept { return handler_depth_tls; }

 private:
  const std::uint32_t value_;
};

// Around rounds of progress in which no handler may run: what is for them waits for the next round
// outside. The program's allocator may be called.
class no_handlers_here {
 public:
  no_handlers_here() noexcept { handler_depth_tls += MAX_HANDLER_DEPTH; }
  ~no_handlers_here() { handler_depth_tls -= MAX_HANDLER_DEPTH; }
  no_handlers_here(const no_handlers_here&) = delete;
  no_handlers_here& operator=(const no_handlers_here&) = delete;
};

// Around code of the program in which no progress may be made, because the bytes of a message still
// lie where the network has put them: its allocator.
class no_progress_here {
 public:
  no_progress_here() noexcept { handler_depth_tls += BARRED; }
  ~no_progress_here() { handler_depth_tls -= BARRED; }
  no_progress_here(const no_progress_here&) = delete;
  no_progress_here& operator=(const no_progress_here&) = delete;
  // Throws argument_error if a round of that depth must not begin.
  static void check(std::uint32_t depth) {
    if (depth > BARRED) fail();
  }

 private:
  static constexpr std::uint32_t BARRED = 1u << 20;
  [[noreturn]] LCI_COLD static void fail() {
    throw argument_error("progress: an allocator of active messages must not make progress");
  }
};

}  // namespace lci::proto
