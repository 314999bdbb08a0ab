// How a receive leaves its matching engine without a message. Callers: the matcher. Threads: the
// record belongs to the caller.
#pragma once

#include <exception>
#include <utility>

#include "lci/base/platform.hpp"
#include "lci/proto/host/host_context.hpp"
#include "lci/proto/host/match_records.hpp"

namespace lci::proto {

// It does not wait any more, and nothing is reported.
inline void take_home(receive& to) noexcept {
  to.host->open_receives.add(-1);
  to.host->common.receives.put(&to);
}

// Ends a receive that has left its engine without a message, or cannot take it.
LCI_COLD inline void drop(receive& to) noexcept {
  host_context& host = *to.host;
  const user_side user = to.user;
  take_home(to);
  host.engine.signals.fail(user);
}

// Ends a receive that its message does not suit; why was kept.
LCI_COLD inline void drop_unsuited(receive& to, std::exception_ptr why) noexcept {
  host_context& host = *to.host;
  const user_side user = to.user;
  take_home(to);
  host.engine.signals.fail_here(user, std::move(why));
}

// A sender is writing into this receive by itself: the message has to find another one.
inline bool was_claimed(receive& to) noexcept {
  if (to.preposted.generation == 0 || to.host->accelerator->withdraw(to)) [[likely]]
    return false;
  to.host->common.receives.put(&to);
  return true;
}

}  // namespace lci::proto
