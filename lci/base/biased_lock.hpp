// A try-lock that one thread can take again and again without a locked instruction, as long as no
// other thread wants it.
//
// While biased, it is a piece of state that its first user owns (base/owned). When a second thread
// comes, it becomes shared: a spinlock. Once one thread has taken it STREAK times in a row, it is
// biased again, towards that thread. Callers: backends whose queues threads may share, such as
// verbs' queue pairs. Threads: shared; try_lock() never waits. Always true: at most one thread
// holds it; the mode in which it was taken does not change while it is held. Not for visits inside
// which lci's packets or other brief visits are used.
#pragma once

#include <atomic>
#include <cstdint>

#include "lci/base/owned.hpp"
#include "lci/base/spinlock.hpp"

namespace lci::base {

class alignas(CACHE_LINE) biased_lock {
 public:
  // Turns in a row after which a shared lock becomes one thread's own. Many, because each change
  // of mode costs every thread of the process a barrier.
  static constexpr std::uint32_t STREAK = 4096;

  // streak: a number to use in place of STREAK, for tests.
  explicit biased_lock(std::uint32_t streak = STREAK) noexcept : most_streak_(streak) {}

  bool try_lock() noexcept {
    if (!owner_.enter_brief_as_owner(detail::thread_record_tls)) [[unlikely]]
      return try_lock_slow();
    // While we are inside, no other thread changes it.
    if (!is_shared()) [[likely]]
      return true;
    owned::leave_brief();
    return try_lock_shared();
  }
  void unlock() noexcept {
    // Relaxed: the holder of the lock sees the value that it found when it took the lock.
    if (is_shared_.load(std::memory_order_relaxed)) [[unlikely]]
      return unlock_shared();
    owned::leave_brief();
  }
  // edge biased.mode, both ways: a thread that finds it shared sees what the last owner wrote
  // inside, even if no thread that saw that has taken lock_ yet; a thread that finds it biased
  // sees what was written under lock_. Partners are the stores in try_lock_slow() and
  // unlock_shared().
  bool is_shared() const noexcept { return is_shared_.load(std::memory_order_acquire); }

 private:
  bool try_lock_slow() noexcept;
  bool try_lock_shared() noexcept;
  void unlock_shared() noexcept;

  owned owner_;                         // of the lock while it is biased
  std::atomic<bool> is_shared_{false};  // written by the holder of the lock
  std::atomic<bool> was_tried_{false};  // by any thread, ever
  spinlock lock_;                       // while it is shared
  const void* last_ = nullptr;          // the last holder; under lock_
  std::uint32_t streak_ = 0;            // how often in a row it took the lock; under lock_
  const std::uint32_t most_streak_;     // turns in a row
};

}  // namespace lci::base
