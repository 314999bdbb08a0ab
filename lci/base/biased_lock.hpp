// A try-lock that one thread takes again and again without a locked instruction, for as long as no
// other wants it.
//
// Biased, it is a piece of state that its first user owns (base/owned). A second thread that comes
// makes it shared: a spinlock. Once one thread has had it to itself for STREAK turns, it is biased
// again, to that thread. Callers: backends whose queues threads may share, such as verbs' queue
// pairs. Threads: shared; try_lock() never waits. Always true: at most one thread has it; the way
// it was taken does not change while it is held. Not for visits in which lci's packets or other
// brief visits begin.
#pragma once

#include <atomic>
#include <cstdint>

#include "lci/base/owned.hpp"
#include "lci/base/spinlock.hpp"

namespace lci::base {

class alignas(CACHE_LINE) biased_lock {
 public:
  // Turns in a row after which a shared lock becomes one thread's own: many, since a way back and
  // forth costs each thread of the process a barrier.
  static constexpr std::uint32_t STREAK = 4096;

  // streak: another number in its place, for tests.
  explicit biased_lock(std::uint32_t streak = STREAK) noexcept : most_streak_(streak) {}

  bool try_lock() noexcept {
    if (!owner_.enter_brief_as_owner(detail::thread_record_tls)) [[unlikely]]
      return try_lock_slow();
    // Inside, nobody else changes it.
    if (!is_shared()) [[likely]]
      return true;
    owned::leave_brief();
    return try_lock_shared();
  }
  void unlock() noexcept {
    // Relaxed: who has the lock sees what it found when it took it.
    if (is_shared_.load(std::memory_order_relaxed)) [[unlikely]]
      return unlock_shared();
    owned::leave_brief();
  }
  // edge biased.mode, both ways: who finds it shared sees what the last owner wrote inside, since
  // lock_ may have been taken by nobody yet who saw that; who finds it its own sees what was
  // written under lock_. Partners are the stores in try_lock_slow() and unlock_shared().
  bool is_shared() const noexcept { return is_shared_.load(std::memory_order_acquire); }

 private:
  bool try_lock_slow() noexcept;
  bool try_lock_shared() noexcept;
  void unlock_shared() noexcept;

  owned owner_;                         // of the lock while it is biased
  std::atomic<bool> is_shared_{false};  // written by who has the lock
  std::atomic<bool> was_tried_{false};  // by anybody, ever
  spinlock lock_;                       // while it is shared
  const void* last_ = nullptr;          // who had it last; under lock_
  std::uint32_t streak_ = 0;            // how often in a row; under lock_
  const std::uint32_t most_streak_;     // turns in a row
};

}  // namespace lci::base
