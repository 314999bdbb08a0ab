// A lock that is held for a handful of instructions. Threads: shared. Never held across a system
// call or user code.
#pragma once

#include <sched.h>

#include <atomic>

#include "lci/base/platform.hpp"

namespace lci::base {

class spinlock {
 public:
  // edge spinlock.held: partner is unlock().
  bool try_lock() noexcept {
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }
  void lock() noexcept {
    for (unsigned spins = 0; !try_lock(); ++spins) {
      // The holder may have lost its core: with more threads than cores, spinning alone would wait
      // for a time slice.
      if (spins % 128 == 127)
        sched_yield();
      else
        cpu_relax();
    }
  }
  // edge spinlock.held: pairs with the acquire exchange in try_lock().
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace lci::base
