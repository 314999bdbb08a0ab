// Progress of a transport, and the threads that wait for it.
#include <sched.h>

#include <algorithm>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/runtime/global.hpp"
#include "lci/transport/core.hpp"

namespace lci::transports {

using std::chrono::steady_clock;

namespace {

// When a limit in seconds is over; below 0: never.
steady_clock::time_point time_in(double limit_s, steady_clock::time_point now) noexcept {
  if (limit_s < 0 || limit_s > MOST_SECONDS) return steady_clock::time_point::max();
  return now +
         std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(limit_s));
}

}  // namespace

bool core::progress_locked(time now, bool with_sockets) {
  bool any = false;
  if (with_sockets) {
    events_.take_timer(now);
    any |= hub_.progress();
    adopt_locked();
  }
  bool has_ended = false;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    any |= links_[i]->progress(now);
    has_ended |= links_[i]->now() == link::state::closed;
    if (links_[i] == called_ && called_->now() == link::state::connected) called_ = nullptr;
  }
  if (has_ended) drop_ended_locked();
  settle_locked();
  return any || has_ended || !calls_.empty();
}

void core::drop_ended_locked() {
  std::erase_if(links_, [&](const auto& one) {
    if (one->now() != link::state::closed) return false;
    last_problem_ = one->problem();
    last_number_ = one->number();
    last_why_ = one->text_of_end();
    if (one == called_) {
      refused_ = one->problem();
      called_ = nullptr;
    }
    return true;
  });
  // Else a program that never calls accept() would keep all peers that it ever had.
  std::erase_if(accepted_, [](const auto& one) { return one->now() == link::state::closed; });
  if (is_lost_locked()) {
    for (const auto& one : note_waiters_)
      one->end(
          std::make_exception_ptr(peer_failure_error(last_number_, "next_write: " + last_why_)),
          calls_);
    note_waiters_.clear();
  }
}

// Whether something has come to a device; a few looks, since this is what a spinning thread does.
bool core::poll_locked() {
  bool any = false, has_ended = false;
  for (int i = 0; i < POLLS && !any; ++i) {
    for (const auto& one : links_) {
      try {
        any |= one->poll();
      } catch (const std::exception& e) {
        one->end(std::current_exception(), e.what());
        any = has_ended = true;
      }
    }
  }
  if (has_ended) drop_ended_locked();
  return any;
}

void core::settle_locked() {
  for (const auto& one : links_) one->settle();
}

void core::turn_locked(bool awake) {
  if (is_awake_ == awake) return;
  is_awake_ = awake;
  for (const auto& one : links_) one->turn(awake);
  settle_locked();
}

// The timer is only ever made earlier: one that fires for nothing costs less than setting it anew
// for every operation.
void core::set_timer_locked(time now) {
  // One that is left of an operation with a limit may be far ahead.
  const bool is_idle = !is_awake_ || events_.armed_for() <= awake_until_;
  if (is_idle && std::none_of(links_.begin(), links_.end(),
                              [](const auto& one) { return one->needs_timer(); }))
    return;
  if (now == time{}) now = steady_clock::now();
  time wanted = is_awake_ ? std::max(awake_until_, now) : time::max();
  for (const auto& one : links_) wanted = std::min(wanted, one->next_look(now));
  if (wanted < events_.armed_for()) events_.wake_at(wanted);
}

// A loop that calls process() without a pause spins: its peers need not wake it.
void core::note_call_locked(time now, bool any) {
  const bool is_quick = now - last_call_ < std::chrono::microseconds(20);
  last_call_ = now;
  quick_calls_ = is_quick && !any ? quick_calls_ + 1 : 0;
  if (quick_calls_ >= 64) {
    awake_until_ = now + link::LEASE;
    turn_locked(true);
  } else if (is_awake_ && now >= awake_until_) {
    turn_locked(false);
  }
}

bool core::process() {
  runtime::refuse_fork("process()");
  std::unique_lock lock(mutex_);
  const time now = steady_clock::now();
  const bool any = progress_locked(now, true);
  note_call_locked(now, any);
  set_timer_locked(now);
  if (any) tell_waiters_locked();
  run_calls(lock);
  return any;
}

void core::tell_waiters_locked() {
  changed_.notify_all();
  if (has_sleeper_) events_.kick();
}

void core::run_calls(std::unique_lock<std::mutex>& lock) {
  if (calls_.empty()) return;
  std::vector<operation::call> calls = std::exchange(calls_, {});
  lock.unlock();
  run(calls);
  lock.lock();
}

void core::doze(std::unique_lock<std::mutex>& lock, time until) {
  has_sleeper_ = true;
  turn_locked(false);
  set_timer_locked(steady_clock::now());
  lock.unlock();
  events_.sleep(until);
  lock.lock();
  has_sleeper_ = false;
  changed_.notify_all();
}

bool core::wait_locked(std::unique_lock<std::mutex>& lock, double limit_s, bool for_peer,
                       const std::function<bool()>& is_over) {
  if (is_over()) return true;
  time now, until, spin_until;  // {}: the clock has not been looked at
  for (int round = 0;; ++round) {
    if (has_sleeper_) {
      if (now == time{}) until = time_in(limit_s, now = steady_clock::now());
      if (until == time::max())
        changed_.wait(lock);
      else if (changed_.wait_until(lock, until) == std::cv_status::timeout && !is_over())
        return false;
    } else {
      const bool with_sockets = round % SOCKETS_EVERY == 0;
      const bool has_come = poll_locked();
      // What is left to do for others waits for the next call, or for the timer.
      if (has_come && is_over()) break;
      if (now == time{}) {
        now = steady_clock::now();
        until = time_in(limit_s, now);
        spin_until = now + spin_time_;
      }
      const bool any = has_come ? progress_locked(now, with_sockets) || true
                                : with_sockets && progress_locked(now, true);
      if (any) changed_.notify_all();
      run_calls(lock);
      if (is_over()) break;
      now = steady_clock::now();
      if (now >= until) return false;
      if (any) spin_until = now + spin_time_;
      if (now >= spin_until) {
        doze(lock, until);
        now = steady_clock::now();
        spin_until = now + spin_time_;
        round = -1;
      } else {
        if (for_peer && round == SOCKETS_EVERY) turn_locked(true);
        if (is_awake_) awake_until_ = now + link::LEASE;
        // Others get their turn: threads with this transport, and the peer, which may need this
        // very processor.
        lock.unlock();
        if (round >= ROUNDS_ALONE) ::sched_yield();
        lock.lock();
      }
    }
    if (is_over()) break;
  }
  return true;
}

void core::end_wait(std::unique_lock<std::mutex>& lock) {
  settle_locked();
  set_timer_locked({});
  if (!calls_.empty()) changed_.notify_all();
  run_calls(lock);
}

bool core::wait_until(double limit_s, const std::function<bool()>& is_met) {
  runtime::refuse_fork("a wait of a transport");
  std::unique_lock lock(mutex_);
  const bool is_over = wait_locked(lock, limit_s, false, is_met);
  end_wait(lock);
  return is_over;
}

bool core::wait_connected(double limit_s) {
  runtime::refuse_fork("wait_connected()");
  std::unique_lock lock(mutex_);
  // A listener waits for others, unless the peer that it has called itself was refused.
  const bool is_over = wait_locked(lock, limit_s, false, [&] {
    return connected_locked() || is_lost_locked() || (links_.empty() && refused_ != nullptr);
  });
  end_wait(lock);
  if (is_over && !connected_locked()) {
    if (links_.empty() && refused_ != nullptr) std::rethrow_exception(refused_);
    if (last_problem_ != nullptr) std::rethrow_exception(last_problem_);
    throw_lost_locked();
  }
  return is_over;
}

bool core::wait_for_note(double limit_s, notification* out) {
  runtime::refuse_fork("wait_for_write()");
  std::unique_lock lock(mutex_);
  const bool is_over =
      wait_locked(lock, limit_s, true, [&] { return !notes_.empty() || is_lost_locked(); });
  const bool has_note = is_over && !notes_.empty();
  if (has_note) {
    if (out != nullptr) *out = notes_.front();
    notes_.pop_front();
  }
  end_wait(lock);
  if (is_over && !has_note) throw_lost_locked();
  return has_note;
}

bool core::wait_released(std::uint64_t memory, double limit_s) {
  return wait_until(limit_s, [&] {
    return std::none_of(links_.begin(), links_.end(),
                        [&](const auto& one) { return one->is_used_by_peer(memory); });
  });
}

bool core::serve_once(std::unique_lock<std::mutex>& lock) noexcept {
  try {
    const time now = steady_clock::now();
    const bool any = progress_locked(now, true);
    // The program has spun in process(), and may never call it again.
    if (is_awake_ && now >= awake_until_) turn_locked(false);
    set_timer_locked(now);
    if (any) changed_.notify_all();
    run_calls(lock);
    return any;
  } catch (const std::exception& e) {  // of a callback, most likely
    log::warn("transport", "the thread that makes progress has met an exception: %s", e.what());
  } catch (...) {
    log::warn("transport", "the thread that makes progress has met an exception");
  }
  if (!lock.owns_lock()) lock.lock();
  return false;
}

void core::serve() noexcept {
  std::unique_lock lock(mutex_);
  while (is_serving_) {
    const bool any = serve_once(lock);
    if (!is_serving_) break;
    // Others get the lock, also while there is much to do.
    lock.unlock();
    if (any)
      ::sched_yield();
    else
      events_.sleep(time::max());
    lock.lock();
  }
  has_sleeper_ = false;
  changed_.notify_all();
}

}  // namespace lci::transports
