// The slow paths of a biased lock, which concern two threads.
// Called by its try_lock() and unlock(). Threads: any.
#include "lci/base/biased_lock.hpp"

namespace lci::base {

// The lock has no owner yet, or another thread owns it: from then on it is a spinlock. False: the
// owner is inside.
LCI_COLD bool biased_lock::try_lock_slow() noexcept {
  if (is_shared()) return try_lock_shared();
  // Relaxed: it only tells the first thread from all later ones.
  const bool is_new = !was_tried_.exchange(true, std::memory_order_relaxed);
  if (!owner_.seize(0) || !owner_.enter_brief()) return false;
  if (is_new && !is_shared()) return true;
  // edge biased.mode: the previous owner has left (edge owned.leave). The next thread to take
  // lock_ may be a third one, which learns of that by this store alone; partner is is_shared().
  is_shared_.store(true, std::memory_order_release);
  owned::leave_brief();
  return try_lock_shared();
}

LCI_COLD bool biased_lock::try_lock_shared() noexcept {
  if (!lock_.try_lock()) return false;
  if (!is_shared()) {  // it has become one thread's own in between
    lock_.unlock();
    return false;
  }
  const void* const me = detail::thread_record_tls;
  streak_ = last_ == me ? streak_ + 1 : 0;
  last_ = me;
  return true;
}

LCI_COLD void biased_lock::unlock_shared() noexcept {
  if (streak_ >= most_streak_) {
    streak_ = 0;
    // edge biased.mode: partner is is_shared() in try_lock(), which finds the caller as owner.
    if (owner_.seize(0)) is_shared_.store(false, std::memory_order_release);
  }
  lock_.unlock();
}

}  // namespace lci::base
