#include "lci/api/waiting.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/thread_id.hpp"
#include "lci/comp/kind.hpp"
#include "lci/errors.hpp"
#include "lci/proto/host/matcher.hpp"

namespace lci::api {

void waiting::count_idle() noexcept {
  constexpr std::uint64_t MOST_MS = 10;  // the most that one round may count
  const std::uint64_t ms = base::ticks_per_ms();
  const std::uint64_t now = base::cpu_ticks();
  const std::uint64_t passed = now - last_ticks_;
  last_ticks_ = now;
  if (idle_ms_ == 0 && idle_ticks_ == 0) {
    idle_ticks_ = 1;  // starts counting
    return;
  }
  idle_ticks_ += passed < MOST_MS * ms ? passed : MOST_MS * ms;
  if (idle_ticks_ >= ms) {
    idle_ms_ += idle_ticks_ / ms;
    idle_ticks_ = idle_ticks_ % ms + 1;
  }
}

void waiting::throw_failed(const std::exception_ptr& kept) {
  if (kept) std::rethrow_exception(kept);
  queues_.engine().errors.rethrow();
  // A receive from any source may have met the request of a rank that was lost before.
  const std::uint32_t count = queues_.engine().errors.lost.count();
  if (count != 0) queues_.engine().errors.throw_loss(count - 1);
  throw std::runtime_error(
      "the operation failed; the call of progress of another thread has thrown why");
}

void waiting::enter(const base::waiting_call& call) noexcept {
  base::enter_waiting(call);
  entered_since_ = std::exchange(since_, ENTERED);
}

void waiting::end() noexcept {
  if (since_ == ENTERED) {
    base::leave_waiting();
    since_ = entered_since_;
  }
  if (queues_.engine().errors.lost.count() != since_) queues_.engine().errors.lost.put_back(since_);
}

namespace {

std::string depth_text(const proto::device_queues& queues) {
  return std::to_string(queues.engine().handlers.limit()) +
         " handlers are inside each other already, which is attribute max_handler_depth; " +
         std::to_string(queues.engine().handlers.size()) + " wait for this one to return";
}

// Whether a receive that waits leads to a signal of `object` once its message comes, from whatever
// rank.
bool leads_to(const proto::user_side& user, const comp_impl_t& object, bool is_alone,
              bool is_held_up) {
  if (user.comp == &object || user.comp == nullptr) return user.comp != nullptr;
  // Its handler would have to wait like the others.
  if (comp::runs_user_code(*user.comp)) return !is_alone && !is_held_up;
  // A collective advances by its receives.
  if (user.comp->attr.comp_type == detail::LIBRARY_COMP && !user.is_waiter) return true;
  // Another thread may wait for it. In this thread only outer calls do.
  return !is_alone;
}

}  // namespace

void throw_held_up(const proto::device_queues& queues, const char* what) {
  throw handler_depth_error(
      std::string(what) + " inside a handler waits for what only another handler can bring, but " +
      depth_text(queues));
}

void throw_waited_out(const proto::device_queues& queues, const char* what) {
  throw handler_depth_error(std::string(what) + " inside a handler has received nothing for " +
                            std::to_string(queues.engine().shared.max_handler_wait_s) +
                            " s, which is attribute max_handler_wait_s, and may wait for another "
                            "handler: " +
                            depth_text(queues));
}

void warn_held_up(const proto::device_queues& queues, const char* what) noexcept {
  base::log::warn("api",
                  "%s inside a handler has received nothing for a while; if it waits for another "
                  "handler it waits in vain: %u are inside each other, which is attribute "
                  "max_handler_depth, and %zu wait for this one to return; attribute "
                  "max_handler_wait_s, now %d, says after how many seconds that is an error",
                  what, queues.engine().handlers.limit(), queues.engine().handlers.size(),
                  queues.engine().shared.max_handler_wait_s);
}

bool may_signal(proto::device_queues& queues, const comp_impl_t& object,
                const proto::device_queues& held_up) {
  if (!queues.engine().is_quiet_but_for_handlers()) return true;
  const bool is_alone = base::is_only_thread();
  const proto::core& core = queues.engine().shared;
  const std::int64_t open = queues.host.open_receives.sum();
  std::int64_t filed = 0;
  bool is_there = false;
  queues.engine().shared.rcomps.for_each_engine([&](proto::match_target& one) {
    proto::matcher::of(one).for_each_receive([&](int source, const proto::receive& waiting) {
      if (waiting.host != &queues.host) return;
      ++filed;
      is_there |= source != core.me && core.n > 1 &&
                  leads_to(waiting.user, object, is_alone, &queues == &held_up);
    });
  });
  // Another receive has met its message, or is posted or completed in another thread.
  return is_there || filed != open || queues.host.open_receives.sum() != open;
}

}  // namespace lci::api
