// What the queues behind a device still owe: to their sink the ends of operations that failed
// before they were posted, to peers notes that could not be sent at once. Owned by these queues.
// Threads: shared; serve() is the polling thread's. Always true: whatever comes in while it is
// served is due again.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

#include "lci/base/spinlock.hpp"
#include "lci/net/backend.hpp"

namespace lci::net {

template <class Note>
class arrears {
 public:
  // False: no memory. reason: a literal.
  bool add_failure(int rank, void* context, const char* reason) noexcept {
    {
      const std::lock_guard lock(lock_);
      try {
        failures_.push_back({rank, context, reason});
      } catch (...) {
        return false;
      }
      untold_.fetch_add(1, std::memory_order_relaxed);
    }
    raise();
    return true;
  }
  // Without memory it is forgotten: the peer finds out by itself, if later.
  void add_note(int rank, const Note& what) noexcept {
    {
      const std::lock_guard lock(lock_);
      try {
        notes_.emplace_back(rank, what);
      } catch (...) {
        return;
      }
    }
    raise();
  }
  // Something else has to be looked after at the next poll.
  void raise() noexcept {
    is_due_.store(true, std::memory_order_release);  // edge net.arrears: partner is serve()
  }
  bool is_due() const noexcept { return is_due_.load(std::memory_order_relaxed); }
  // Whether the sink has heard of every failure.
  bool are_failures_told() const noexcept {
    return untold_.load(std::memory_order_acquire) ==
           0;  // edge net.arrears.told: partner is serve()
  }

  // tell(rank, note) sends one, or adds it again.
  template <class Tell>
  void serve(sink& to, Tell&& tell) noexcept {
    // edge net.arrears: partner is raise(). First, so that nothing is overlooked.
    is_due_.exchange(false, std::memory_order_acquire);
    std::deque<std::pair<int, Note>> notes;
    {
      const std::lock_guard lock(lock_);
      notes.swap(notes_);
    }
    for (const auto& [rank, what] : notes) tell(rank, what);
    failure one;
    while (take(one)) {
      to.on_error(one.rank, one.context, one.reason);
      // edge net.arrears.told: partner is are_failures_told().
      untold_.fetch_sub(1, std::memory_order_release);
    }
  }

 private:
  struct failure {
    int rank;
    void* context;
    const char* reason;
  };
  bool take(failure& out) noexcept {
    const std::lock_guard lock(lock_);
    if (failures_.empty()) return false;
    out = failures_.front();
    failures_.pop_front();
    return true;
  }

  base::spinlock lock_;  // guards the two lists
  std::deque<failure> failures_;
  std::deque<std::pair<int, Note>> notes_;
  std::atomic<bool> is_due_{false};
  std::atomic<std::uint64_t> untold_{0};
};

}  // namespace lci::net
