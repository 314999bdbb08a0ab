// Many threads may pass at a time, or one may be alone. For work that is short on both sides and
// where being alone is rare: a pass costs two additions to a shared word.
// Threads: shared. Always true: while alone() runs its function, no thread is inside; threads that
// enter do not wait for each other. A thread that is inside may neither enter again nor call
// alone().
#pragma once

#include <atomic>
#include <mutex>

#include "lci/base/platform.hpp"
#include "lci/base/spin.hpp"
#include "lci/base/spinlock.hpp"

namespace lci::base {

class gate {
 public:
  void enter() noexcept {
    for (;;) {
      // edge gate.enter: a thread that enters is counted before it checks whether the gate is
      // closed, and one that closes it does so before it checks the count; partner is alone().
      // edge gate.open: a thread that finds it open sees what was done while it was closed.
      inside_.fetch_add(1, std::memory_order_seq_cst);
      if (!is_closed_.load(std::memory_order_seq_cst)) [[likely]]
        return;
      inside_.fetch_sub(1, std::memory_order_relaxed);
      spin_wait wait;
      while (is_closed_.load(std::memory_order_relaxed)) wait();
    }
  }
  // edge gate.leave: what was done inside is seen by alone().
  void leave() noexcept { inside_.fetch_sub(1, std::memory_order_release); }

  // Calls f() while no thread is inside.
  template <class F>
  void alone(F&& f) noexcept {
    const std::lock_guard lock(one_at_a_time_);
    is_closed_.store(true, std::memory_order_seq_cst);  // edge gate.enter: partner is enter()
    spin_wait wait;
    // edge gate.leave: partner is leave(). edge gate.enter: partner is enter().
    while (inside_.load(std::memory_order_seq_cst) != 0) wait();
    f();
    // edge gate.open: what f() did is seen by the threads that enter next; partner is enter().
    is_closed_.store(false, std::memory_order_release);
  }

 private:
  std::atomic<int> inside_{0};
  std::atomic<bool> is_closed_{false};
  spinlock one_at_a_time_;
};

class gate_pass {
 public:
  explicit gate_pass(gate& g) noexcept : gate_(g) { gate_.enter(); }
  ~gate_pass() { gate_.leave(); }
  gate_pass(const gate_pass&) = delete;
  gate_pass& operator=(const gate_pass&) = delete;

 private:
  gate& gate_;
};

}  // namespace lci::base
