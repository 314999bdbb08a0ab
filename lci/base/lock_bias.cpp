// Moves and ends a bias: what concerns two threads.
// Called by its visits. Threads: any.
#include "lci/base/lock_bias.hpp"

#include <mutex>

namespace lci::base {

// Towards the caller, or for good towards no thread.
LCI_COLD void lock_bias::move() noexcept {
  thread_id();  // a thread's very first visit
  const std::lock_guard guard(moving_);
  if (is_over()) return;
  while (moves_ <= most_moves_ && detail::thread_record_tls != nullptr) {
    if (!owner_.seize()) continue;  // the owner is inside, perhaps without a processor
    ++moves_;
    return;
  }
  owner_.retire();
  // edge lock_bias.over: no thread is inside; partner is is_over().
  is_over_.store(true, std::memory_order_release);
}

// On a visit, while another thread that wants to move the bias has withdrawn it for a moment: that
// one waits for the visit to end.
bool lock_bias::is_inside() const noexcept {
  const detail::thread_record* const me = detail::thread_record_tls;
  return me != nullptr && me->holds(&owner_);
}

LCI_COLD bool lock_bias::enter_brief_slow() noexcept {
  do {
    if (is_inside()) return false;
    move();
    if (owner_.enter_brief_as_owner(detail::thread_record_tls)) return true;
  } while (!is_over());
  return false;
}

bool lock_bias::enter() noexcept {
  while (!is_over()) {
    if (owner_.enter_as_owner(detail::thread_record_tls)) return true;
    if (is_inside()) return false;
    move();
  }
  return false;
}

// It announces nothing: the announcement that a handler has interrupted would be lost. Instead, it
// becomes the owner, and no other thread can move the bias while it holds moving_.
lock_bias::look::look(lock_bias& at) noexcept : at_(at) {
  if (at_.is_over()) {
    may_look_ = true;
    return;
  }
  // A thread without a record cannot get one here.
  if (detail::thread_record_tls == nullptr || at_.is_inside() || !at_.moving_.try_lock()) return;
  keeps_out_ = true;
  may_look_ = at_.is_over() || at_.owner_.seize(0);
}

}  // namespace lci::base
