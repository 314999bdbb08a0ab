// Lets one thread use something without its locks, for as long as no other thread uses it.
//
// A user enters first. The thread that the bias is towards comes in with plain
// instructions (base/owned) and needs no lock. When another thread comes, the bias moves to that
// one, since programs often set up in one thread and work in another; after MOVES of these it is
// over for good, and every thread takes the locks. Callers: matching engines. Threads: any. Always
// true: while a thread is inside, no other thread is inside or finds the bias over. Locks taken
// under a bias are taken after entering, never before: a mover waits until the other is outside.
#pragma once

#include <atomic>
#include <cstdint>

#include "lci/base/owned.hpp"
#include "lci/base/spinlock.hpp"

namespace lci::base {

class lock_bias {
 public:
  // The second thread may be the one that works; two that take turns soon have locks, since each
  // move costs every thread of the process a barrier.
  static constexpr std::uint32_t MOVES = 4;

  // moves: a number to use in place of MOVES, for tests.
  explicit lock_bias(std::uint32_t moves = MOVES) noexcept : most_moves_(moves) {}

  // True: the caller is inside, without a lock, until leave_brief(); no other brief visit may begin
  // meanwhile (packets are taken in one). False: the bias is over, or the caller is on a visit, and
  // the locks are to be taken.
  bool enter_brief() noexcept {
    if (enter_brief_at_once()) [[likely]]
      return true;
    return !is_over() && enter_brief_slow();
  }
  static void leave_brief() noexcept { owned::leave_brief(); }
  // The same only if the bias is towards the caller already: moves nothing and calls nothing.
  // False: enter_brief() has to try.
  bool enter_brief_at_once() noexcept {
    return owner_.enter_brief_as_owner(detail::thread_record_tls);
  }

  // Longer visits, in which anything may be done that takes the locks as well. They nest.
  class visit {
   public:
    explicit visit(lock_bias& of) noexcept : of_(of), is_inside_(of.enter()) {}
    ~visit() {
      if (is_inside_) of_.owner_.leave();
    }
    visit(const visit&) = delete;
    visit& operator=(const visit&) = delete;

   private:
    lock_bias& of_;
    const bool is_inside_;
  };
  // The same for signal handlers, which must not wait nor touch what they have interrupted. False:
  // another thread, or the interrupted code, is inside. Others cannot enter while it lives.
  class look {
   public:
    explicit look(lock_bias& at) noexcept;
    ~look() {
      if (keeps_out_) at_.moving_.unlock();
    }
    look(const look&) = delete;
    look& operator=(const look&) = delete;
    explicit operator bool() const noexcept { return may_look_; }

   private:
    lock_bias& at_;
    bool keeps_out_ = false;
    bool may_look_ = false;
  };

  // edge lock_bias.over: what the last thread did inside is visible to all that take the locks.
  bool is_over() const noexcept { return is_over_.load(std::memory_order_acquire); }

 private:
  bool enter() noexcept;
  bool is_inside() const noexcept;
  bool enter_brief_slow() noexcept;
  void move() noexcept;

  owned owner_;
  spinlock moving_;          // held by the thread that moves or ends it
  std::uint32_t moves_ = 0;  // under moving_
  const std::uint32_t most_moves_;
  std::atomic<bool> is_over_{false};
};

}  // namespace lci::base
