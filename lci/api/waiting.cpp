#include "lci/api/waiting.hpp"

#include <string>

#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lci::api {

void waiting::count_idle() noexcept {
  constexpr std::uint64_t MOST_MS = 10;  // that one round may count
  const std::uint64_t ms = base::ticks_per_ms();
  const std::uint64_t now = base::cpu_ticks();
  const std::uint64_t passed = now - last_ticks_;
  last_ticks_ = now;
  if (idle_ms_ == 0 && idle_ticks_ == 0) {
    idle_ticks_ = 1;  // begins to count
    return;
  }
  idle_ticks_ += passed < MOST_MS * ms ? passed : MOST_MS * ms;
  if (idle_ticks_ >= ms) {
    idle_ms_ += idle_ticks_ / ms;
    idle_ticks_ = idle_ticks_ % ms + 1;
  }
}

void throw_held_up(const proto::channel& via, const char* what) {
  throw handler_depth_error(
      std::string(what) + " inside a handler waits for what only another handler can bring, but " +
      std::to_string(via.handlers.limit()) +
      " handlers are inside each other already, which is attribute max_handler_depth; " +
      std::to_string(via.handlers.size()) + " wait for this one to return");
}

void warn_held_up(const proto::channel& via, const char* what) noexcept {
  base::log::warn("api",
                  "%s inside a handler has heard nothing for a while; if it waits for another "
                  "handler it never ends: %u are inside each other, which is attribute "
                  "max_handler_depth, and %zu wait for this one to return",
                  what, via.handlers.limit(), via.handlers.size());
}

}  // namespace lci::api
