// Moves and ends a bias: what concerns two threads.
// Called by its visits. Threads: any.
#include "lci/base/lock_bias.hpp"

#include <mutex>

namespace lci::base {

// Towards the caller, or towards nobody for good.
LCI_COLD void lock_bias::move() noexcept {
  thread_id();  // a thread's very first visit
  const std::lock_guard guard(moving_);
  if (is_over()) return;
  while (moves_ <= most_moves_ && detail::thread_record_tls != nullptr) {
    if (!owner_.seize()) continue;  // the other one is inside, perhaps without a processor
    ++moves_;
    return;
  }
  owner_.retire();
  // edge lock_bias.over: nobody is inside; partner is is_over().
  is_over_.store(true, std::memory_order_release);
}

LCI_COLD bool lock_bias::enter_brief_slow() noexcept {
  do {
    move();
    if (owner_.enter_brief_as_owner(detail::thread_record_tls)) return true;
  } while (!is_over());
  return false;
}

bool lock_bias::enter() noexcept {
  while (!is_over()) {
    if (owner_.enter_as_owner(detail::thread_record_tls)) return true;
    move();
  }
  return false;
}

bool lock_bias::try_enter() noexcept {
  if (is_over()) return true;
  thread_id();
  detail::thread_record* const me = detail::thread_record_tls;
  if (me == nullptr || me->holds(&owner_)) return false;
  if (owner_.enter_as_owner(me)) return true;
  if (!moving_.try_lock()) return false;
  const bool is_inside = !is_over() && owner_.seize(0) && owner_.enter_as_owner(me);
  moving_.unlock();
  return is_inside || is_over();
}

void lock_bias::leave() noexcept {
  if (detail::thread_record_tls->holds(&owner_)) owner_.leave();
}

}  // namespace lci::base
