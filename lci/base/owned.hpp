// Ownership of a piece of state by one thread at a time, without a locked instruction on the
// owner's path.
//
// The owner announces "inside" in its thread record and then checks that it still is the owner,
// both with plain instructions. A taker withdraws the ownership, issues membarrier (private
// expedited), which makes every running thread of the process execute a full barrier, and then
// looks for the announcement. So either the owner sees the withdrawal or the taker sees the owner
// inside. Where membarrier is missing, and under thread sanitizer, the announcement is a locked
// exchange. The announcement is not a field of the owned object: a former owner, stopped between
// its first look and its announcement, would later overwrite its successor's word. Threads:
// enter()/leave() any thread; visits nest and end in any order, in the thread that began them.
// Always true: at most one thread is inside.
#pragma once

#include <atomic>
#include <cstdint>

#include "lci/base/platform.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/base/thread_id.hpp"

namespace lci::base {

// True when membarrier(private expedited) was registered for this process; false means that the
// locked form is used. Tests may switch it off while no thread uses an owned object.
bool has_asymmetric_fence() noexcept;
void force_locked_fence_for_test(bool on) noexcept;

// The taker's half: on return, every thread of the process has executed a full barrier. A thread
// that stores before the call and loads after it is ordered with a thread that stores and then
// loads, with plain instructions while detail::plain_fence is set and with sequentially consistent
// ones otherwise. False: the system refused, and nothing may be concluded.
bool heavy_fence() noexcept;

namespace detail {
extern thread_record nobody;           // the owner of objects that have no owner
extern std::atomic<bool> plain_fence;  // owners may use plain instructions
}  // namespace detail

class alignas(CACHE_LINE) owned {
 public:
  // An owner that has been outside for this long may be replaced by a thread that wants to enter.
  static constexpr std::uint64_t IDLE_US = 50;
  // How long seize() waits for an owner that is inside.
  static constexpr std::uint64_t SEIZE_US = 1000;

  // Inside on true; leave() must follow. The owner enters with plain instructions; the first thread
  // ever becomes the owner; another thread gets false, unless the owner has been outside and idle
  // for IDLE_US, in which case the caller replaces it.
  bool enter() noexcept { return enter(detail::thread_record_tls); }
  void leave() noexcept { leave(detail::thread_record_tls); }
  // The same for the owner alone: a caller never becomes the owner by it.
  bool enter_as_owner(detail::thread_record* me) noexcept {
    return owner_.load(std::memory_order_relaxed) == me && announce(me);
  }
  // The same for callers that have their thread's record at hand; null before the first visit.
  bool enter(detail::thread_record* me) noexcept {
    if (owner_.load(std::memory_order_relaxed) != me) [[unlikely]]
      return enter_slow();
    return announce(me) || enter_slow();
  }
  void leave(detail::thread_record* me) noexcept {
    const std::uint32_t last = me->depth.load(std::memory_order_relaxed) - 1;
    if (me->inside[last].load(std::memory_order_relaxed) != this) [[unlikely]]
      close_gap(me, last);
    // edge owned.leave: what was written inside is seen by the next owner; partner is holds().
    me->depth.store(last, std::memory_order_release);
  }
  // The same at half the cost, for visits of a few instructions in which no other brief visit
  // begins. They do not count as activity: others enter by seize(), or as if the owner were idle.
  bool enter_brief() noexcept { return enter_brief(detail::thread_record_tls); }
  static void leave_brief() noexcept { leave_brief(detail::thread_record_tls); }
  bool enter_brief(detail::thread_record* me) noexcept {
    if (owner_.load(std::memory_order_relaxed) != me) [[unlikely]]
      return enter_brief_slow();
    return announce_brief(me) || enter_brief_slow();
  }
  // The same for the owner alone: a caller never becomes the owner by it.
  bool enter_brief_as_owner(detail::thread_record* me) noexcept {
    return owner_.load(std::memory_order_relaxed) == me && announce_brief(me);
  }
  static void leave_brief(detail::thread_record* me) noexcept {
    // edge owned.leave: partner is holds().
    me->brief.store(nullptr, std::memory_order_release);
  }
  // A look at what mostly needs no more: a brief visit, but one that counts as activity. It ends
  // with leave_brief(), or becomes a visit of any length with stay(). For the owner alone.
  bool look_in(detail::thread_record* me) noexcept {
    if (!enter_brief_as_owner(me)) [[unlikely]]
      return false;
    count_visit();
    return true;
  }
  // True: leave() must follow. False: there are too many visits, and the caller is outside.
  bool stay(detail::thread_record* me) noexcept {
    const std::uint32_t depth = me->depth.load(std::memory_order_relaxed);
    if (depth != record::MAX_INSIDE) [[likely]] {
      // edge owned.moved: see close_gap().
      me->inside[depth].store(this, std::memory_order_release);
      // edge owned.leave: a taker that finds the brief visit over finds this one; partner is
      // holds(), which looks in the same order.
      me->depth.store(depth + 1, std::memory_order_release);
    }
    leave_brief(me);
    return depth != record::MAX_INSIDE;
  }
  // Makes the caller the owner (not yet inside) even if the present owner is not idle, waiting for
  // that owner to leave; false if it is still inside after `wait_us`, or if the caller is inside.
  // With 0 it waits for no other taker either.
  bool seize(std::uint64_t wait_us = SEIZE_US) noexcept;
  // Takes the ownership from the thread that has it and leaves it to none; waits until all are
  // outside, so the caller must be.
  void retire() noexcept;
  // Gives up ownership, so that the next thread becomes the owner without a barrier. Call it only
  // while outside; it does nothing if the caller is not the owner.
  void disown() noexcept;
  // Visits so far, but for brief ones that do not count. A hint, for any thread.
  std::uint32_t visits() const noexcept { return visits_.load(std::memory_order_relaxed); }
  // The owner's thread id, or detail::NO_THREAD_ID.
  // edge owned.owner: the record before its address; partners are claim(), take_from() and seize().
  std::uint32_t owner() const noexcept { return owner_.load(std::memory_order_acquire)->id; }

 private:
  using record = detail::thread_record;

  // Inside on true. False: no longer the owner, or too many visits.
  bool announce(record* me) noexcept {
    const std::uint32_t depth = me->depth.load(std::memory_order_relaxed);
    if (depth == record::MAX_INSIDE) [[unlikely]]
      return false;
    // edge owned.moved: see close_gap().
    me->inside[depth].store(this, std::memory_order_release);
    if (!LCI_TSAN && detail::plain_fence.load(std::memory_order_relaxed)) [[likely]] {
      // edge owned.enter: the taker's membarrier stands for the barrier missing between this store
      // and the load below.
      me->depth.store(depth + 1, std::memory_order_release);
      compiler_fence();
    } else {
      // edge owned.enter, locked form: ordered with the taker's store to owner_ and load of depth.
      me->depth.exchange(depth + 1, std::memory_order_seq_cst);
    }
    if (owner_.load(std::memory_order_seq_cst) != me) [[unlikely]] {
      me->depth.store(depth, std::memory_order_release);  // edge owned.leave: nothing was touched
      return false;
    }
    count_visit();
    return true;
  }
  void count_visit() noexcept {
    visits_.store(visits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // Loads no depth: two visits in a row do not wait for each other's stores.
  bool announce_brief(record* me) noexcept {
    if (!LCI_TSAN && detail::plain_fence.load(std::memory_order_relaxed)) [[likely]] {
      me->brief.store(this, std::memory_order_release);  // edge owned.enter
      compiler_fence();
    } else {
      me->brief.exchange(this, std::memory_order_seq_cst);  // edge owned.enter, locked form
    }
    if (owner_.load(std::memory_order_seq_cst) == me) [[likely]]
      return true;
    leave_brief(me);
    return false;
  }
  bool enter_slow() noexcept;
  bool enter_brief_slow() noexcept;
  bool become_owner(record* me) noexcept;
  bool enter_nested(record* me) noexcept;
  bool claim(record* me) noexcept;
  bool take_from(record* old, record* me, std::uint64_t wait_us) noexcept;
  void close_gap(record* me, std::uint32_t last) noexcept;
  void restart_idle_clock() noexcept;

  // Read by all threads; written when ownership changes or a taker looks.
  std::atomic<record*> owner_{&detail::nobody};
  spinlock taking_;  // held by the thread that changes the owner
  std::atomic<std::uint32_t> seen_visits_{0};
  std::atomic<std::uint64_t> seen_ticks_{0};
  // Written by the owner at each visit, hence on a line that others seldom read.
  alignas(CACHE_LINE) std::atomic<std::uint32_t> visits_{0};
};

// Enters in its constructor, and leaves in its destructor if it could enter.
class owned_guard {
 public:
  explicit owned_guard(owned& what) noexcept
      : what_(what), me_(detail::thread_record_tls), in_(what.enter(me_)) {
    if (me_ == nullptr) [[unlikely]]
      me_ = detail::thread_record_tls;
  }
  ~owned_guard() {
    if (in_) what_.leave(me_);
  }
  owned_guard(const owned_guard&) = delete;
  owned_guard& operator=(const owned_guard&) = delete;
  explicit operator bool() const noexcept { return in_; }

 private:
  owned& what_;
  detail::thread_record* me_;
  bool in_;
};

}  // namespace lci::base
