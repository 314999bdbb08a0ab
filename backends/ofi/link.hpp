// What a port knows of the same device of one peer: whether it can be posted to, how much of what
// was sent the peer has dealt with, and what is posted and not completed. Callers: connector makes
// it; endpoints post; the polling thread completes. Threads: as said at each part. Always true: no
// more than WINDOW messages are on the way that the peer has not dealt with; what was entered is
// told exactly once, by its completion or by the end of the link.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <mutex>

#include "backends/ofi/wire.hpp"
#include "backends/ofi/work.hpp"
#include "lci/base/platform.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/net/connected/call_pace.hpp"

namespace lci::ofi {

class link {
 public:
  // Moves forward only. calling: hellos are under way; ready: both sides know each other; left: the
  // peer took leave; failed: it died or cannot be reached.
  enum class stage : std::uint8_t { calling, ready, left, failed };
  // Messages on the way to a peer: providers buffer what nobody has asked for without end.
  static constexpr std::uint64_t WINDOW = 1024;

  link(int r, std::uint32_t most) noexcept : rank(r), most_(most) {}

  // edge ofi.stage: partner is move().
  stage state() const noexcept { return stage_.load(std::memory_order_acquire); }
  // edge ofi.stage: partner is state(). Only forward; true if this call moved it.
  bool move(stage to) noexcept {
    stage now = stage_.load(std::memory_order_relaxed);
    while (now < to)
      if (stage_.compare_exchange_weak(now, to, std::memory_order_acq_rel)) return true;
    return false;
  }
  errorcode_t refusal() const noexcept {
    return state() >= stage::left ? errorcode_t::fatal : errorcode_t::retry_nomem;
  }

  // ---- credit ----
  // A message may go. What does not go after all is given back.
  bool take_credit() noexcept {
    // Relaxed: a number of ours, compared with one that only grows.
    if (sent_.fetch_add(1, std::memory_order_relaxed) - consumed_.load(std::memory_order_relaxed) <
        WINDOW) [[likely]]
      return true;
    give_back_credit();
    return false;
  }
  void give_back_credit() noexcept { sent_.fetch_sub(1, std::memory_order_relaxed); }
  // The peer says that it has dealt with so many.
  void set_consumed(std::uint64_t count) noexcept {
    if (count > consumed_.load(std::memory_order_relaxed))
      consumed_.store(count, std::memory_order_relaxed);
  }

  // ---- what is posted ----
  // False: the link has ended, or so much is posted already that a user has to wait.
  bool enter(work& one) noexcept {
    const std::lock_guard lock(lock_);
    if (state() >= stage::left || (one.what == purpose::user && open_ >= most_)) return false;
    works_.push_front(one);
    count(one, 1);
    return true;
  }
  // It is completed, or the provider has not taken it. False: its end was told already.
  bool leave(work& one) noexcept {
    const std::lock_guard lock(lock_);
    works_.erase(works_.iterator_to(one));
    if (!one.is_told) count(one, ~0u);
    return !one.is_told;
  }
  // One that nobody was told of, now that the link has ended; null: there is none left. Its place
  // in the list stays, until the provider is done with it.
  work* take_untold() noexcept {
    const std::lock_guard lock(lock_);
    for (work& one : works_) {
      if (one.is_told) continue;
      one.is_told = true;
      count(one, ~0u);
      return &one;
    }
    return nullptr;
  }
  // A write that the provider is done with, and the target is, too: up to number `flush`; null:
  // none.
  work* take_flushed(std::uint64_t flush) noexcept {
    work* found = nullptr;
    {
      const std::lock_guard lock(lock_);
      const auto is_flushed = [=](const work& one) { return one.flush != 0 && one.flush <= flush; };
      const auto at = std::find_if(works_.begin(), works_.end(), is_flushed);
      if (at != works_.end()) found = &*at;
    }
    if (found != nullptr) leave(*found);
    return found;
  }
  // Everything that the provider has not given back, when its endpoint is closed.
  template <class F>
  void for_each(F&& f) noexcept {
    works_.clear_and_dispose([&](work* one) { f(*one); });
  }
  // edge ofi.counts: partner is count().
  bool is_idle() const noexcept { return all_.load(std::memory_order_acquire) == 0; }
  // Writes whose data may not be there yet; and of these, those for which nobody waits. Both:
  // edge ofi.counts, partner is count().
  bool has_writes() const noexcept { return writes_.load(std::memory_order_acquire) != 0; }
  bool has_silent_writes() const noexcept {
    // edge ofi.counts
    return silent_writes_.load(std::memory_order_acquire) != 0;
  }
  // What the provider said when it refused a post for good; 0: nothing.
  int refused() const noexcept { return refused_.load(std::memory_order_relaxed); }
  void set_refused(int code) noexcept { refused_.store(code, std::memory_order_relaxed); }

  // ---- signs of life ----
  // Something came from the peer, or was answered by it. The polling thread says so.
  void hear(std::uint64_t ticks) noexcept { heard_ticks_.store(ticks, std::memory_order_relaxed); }
  // When; 0: never. Relaxed: a time with nothing behind it.
  std::uint64_t heard_ticks() const noexcept {
    return heard_ticks_.load(std::memory_order_relaxed);
  }

  const int rank;
  fi_addr_t peer = FI_ADDR_UNSPEC;  // its device; set before it is ready
  fi_addr_t keys = FI_ADDR_UNSPEC;  // where its registrations are reached; likewise

  // ---- the connector's ----
  endpoint_name name;  // of the peer's device; size 0: not known yet
  bool is_known_there = false;
  net::connected::call_pace pace;
  // ---- the polling thread's ----
  std::uint64_t taken = 0;  // messages of the peer that were dealt with
  std::uint64_t told = 0;   // of these it knows
  std::uint64_t flushes = 0;
  std::uint64_t knocked_ticks = 0;
  bool is_knocking = false;
  bool was_gone_said = false;
  std::uint64_t missed_ticks = 0;  // when its process was missed; 0: it is not
  std::uint32_t missed_polls = 0;  // polls at that time, and
  std::uint32_t missed_dry = 0;    // of these, those that had found nothing

 private:
  // Under lock_; others only look. edge ofi.counts: what was told is done before the count says so.
  void count(const work& one, std::uint32_t by) noexcept {
    const auto add = [by](std::atomic<std::uint32_t>& to) {
      to.store(to.load(std::memory_order_relaxed) + by, std::memory_order_release);
    };
    add(all_);
    if (one.what == purpose::user) open_ += by;
    if (one.is_write) add(writes_);
    if (one.is_silent) add(silent_writes_);
  }

  std::atomic<std::uint64_t> heard_ticks_{0};
  std::atomic<stage> stage_{stage::calling};
  std::atomic<int> refused_{0};
  const std::uint32_t most_;  // operations of users at a time
  alignas(base::CACHE_LINE) std::atomic<std::uint64_t> sent_{0};
  std::atomic<std::uint64_t> consumed_{0};
  alignas(base::CACHE_LINE) base::spinlock lock_;
  boost::intrusive::list<
      work, boost::intrusive::member_hook<work, decltype(work::in_link), &work::in_link>,
      boost::intrusive::constant_time_size<false>>
      works_;
  std::uint32_t open_ = 0;
  std::atomic<std::uint32_t> all_{0}, writes_{0}, silent_writes_{0};
};

}  // namespace lci::ofi
