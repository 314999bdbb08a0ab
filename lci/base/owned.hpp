// Ownership of a piece of state by one thread at a time, without a locked instruction on the owner's way.
//
// The owner stores "inside" and looks for "revoked" with plain loads and stores; a taker stores "revoked", issues membarrier (private
// expedited), which makes every running thread of the process pass a full barrier, and then looks at "inside". So either the owner saw the revocation or the
// taker sees the owner inside. Where membarrier is missing, and under thread sanitizer, the owner's store is a locked exchange.
// Threads: enter()/leave() any thread; they nest. Always true: at most one thread is inside.
#pragma once

#include <atomic>
#include <cstdint>

#include "lci/base/platform.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/base/thread_id.hpp"

namespace lci::base {

// True when membarrier(private expedited) was registered for this process; false forces the locked form. Tests may switch it off.
bool has_asymmetric_fence() noexcept;
void force_locked_fence_for_test(bool on) noexcept;

class alignas(CACHE_LINE) owned {
 public:
  // Idle for this long, an owner may be revoked by a thread that wants in.
  static constexpr std::uint64_t IDLE_US = 50;

  // Inside on true; leave() must follow. The owner enters with plain instructions; the first thread ever becomes owner; another thread gets false,
  // unless the owner has been outside and idle for IDLE_US, in which case it is revoked and the caller becomes owner.
  bool enter() noexcept;
  void leave() noexcept;
  // Takes ownership regardless of idleness, waiting for the owner to leave; false if it is still inside after a bounded wait, or if the caller is nested inside.
  bool seize() noexcept;
  // The owner's thread id, or detail::NO_THREAD_ID.
  std::uint32_t owner() const noexcept { return owner_.load(std::memory_order_relaxed); }

 private:
  bool enter_slow() noexcept;
  std::atomic<std::uint32_t> owner_{detail::NO_THREAD_ID};
  std::atomic<std::uint32_t> inside_{0};   // nesting depth; written by the owner
  std::atomic<std::uint32_t> revoked_{0};  // written by a taker that holds taking_
  std::atomic<std::uint32_t> visits_{0};   // written by the owner; a taker that sees it stand still calls the owner idle
  spinlock taking_;
  std::uint32_t seen_visits_ = 0;  // by takers, under taking_
  std::uint64_t seen_ticks_ = 0;   // by takers, under taking_
};

// Leaves in its destructor if it got in.
class owned_guard {
 public:
  explicit owned_guard(owned& what) noexcept : what_(what), in_(what.enter()) {}
  ~owned_guard() { if (in_) what_.leave(); }
  owned_guard(const owned_guard&) = delete;
  owned_guard& operator=(const owned_guard&) = delete;
  explicit operator bool() const noexcept { return in_; }

 private:
  owned& what_;
  bool in_;
};

}  // namespace lci::base
