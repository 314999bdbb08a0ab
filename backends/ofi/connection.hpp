// A connection to the same device of one peer: whether it can be posted to, how much of what
// was sent the peer has dealt with, and what is posted and not completed. Callers: connector makes
// it; endpoints post; the polling thread completes. Threads: as said at each part. Always true: no
// more than WINDOW messages are on the way that the peer has not dealt with; what was entered is
// told exactly once, by its completion or by the end of the connection.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <mutex>
#include <optional>

#include "backends/ofi/wire.hpp"
#include "backends/ofi/work.hpp"
#include "lci/base/platform.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/net/connected/connection.hpp"

namespace lci::ofi {

class connection : public net::connected::connection {
 public:
  // Messages on the way to a peer: providers buffer without limit what the peer has not asked for.
  static constexpr std::uint64_t WINDOW = 1024;

  // most: operations of users at a time.
  connection(int peer_rank, std::uint32_t most) noexcept
      : net::connected::connection(peer_rank), most_(most) {}

  // ---- credit ----
  // A message may go. What does not go after all is given back.
  bool take_credit() noexcept {
    // Relaxed: the backend's own number, compared with one that only grows.
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
  // False: the connection has ended, or so much is posted already that a user has to wait.
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
  // One whose end was not reported, now that the connection has ended. It keeps its place in the
  // list and what it holds until the provider is done with it. That may be as soon as the lock is
  // free: the post that it is for may be under way still, and be refused.
  struct untold {
    holding held;
    work* done;  // the provider was done with it: all is the caller's; null: it was not
  };
  // Those for which the provider may use memory of the program only if all are wanted.
  std::optional<untold> take_untold(bool all) noexcept {
    const std::lock_guard lock(lock_);
    const auto at = std::find_if(works_.begin(), works_.end(), [=](const work& one) {
      return !one.is_told && (all || !one.uses_memory_of_program());
    });
    if (at == works_.end()) return std::nullopt;
    work& one = *at;
    one.is_told = true;
    count(one, ~0u);
    untold out{one, nullptr};
    if (one.flush != 0) {
      works_.erase(at);
      out.done = &one;
    }
    return out;
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
  // No user is told of what is posted. Nor do packets go home: their pool may have ended by then.
  // Their memory stays, so the provider may read them still.
  void forget_users() noexcept {
    const std::lock_guard lock(lock_);
    for (work& one : works_) {
      if (one.what != purpose::user || one.is_told) continue;
      one.context = nullptr;
      one.packet = nullptr;
    }
  }
  // Everything that the provider has not given back, when its endpoint is closed.
  template <class F>
  void for_each(F&& f) noexcept {
    works_.clear_and_dispose([&](work* one) { f(*one); });
  }
  // edge ofi.counts: partner is count().
  bool is_idle() const noexcept { return all_.load(std::memory_order_acquire) == 0; }
  // Writes whose data may not be there yet; and of these, those that nothing waits for. Both:
  // edge ofi.counts, partner is count().
  bool has_writes() const noexcept { return writes_.load(std::memory_order_acquire) != 0; }
  bool has_silent_writes() const noexcept {
    // edge ofi.counts
    return silent_writes_.load(std::memory_order_acquire) != 0;
  }

  fi_addr_t peer = FI_ADDR_UNSPEC;  // its device; set before it is ready
  fi_addr_t keys = FI_ADDR_UNSPEC;  // where its registrations are reached; likewise

  // ---- the connector's ----
  endpoint_name name;  // of the peer's device; size 0: not known yet
  // ---- the polling thread's ----
  std::uint64_t taken = 0;  // messages of the peer that were dealt with
  std::uint64_t told = 0;   // of these it knows
  std::uint64_t flushes = 0;
  bool is_asked = false;  // for a sign of life, and that is not out yet
  // How far the polling was at some time.
  struct moment {
    std::uint64_t ticks = 0;  // 0: it has not come
    std::uint32_t polls = 0;  // until then, and
    std::uint32_t dry = 0;    // of these, those that had found nothing
  };
  moment missed;                    // its process was
  moment ended;                     // the connection has, with memory of the program in use
  std::uint64_t leaving_ticks = 0;  // when we were to say that we leave, behind writes
  std::uint64_t broken_ticks = 0;   // when it failed and the peer was to be told; 0: it was

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

  const std::uint32_t most_;
  alignas(base::CACHE_LINE) std::atomic<std::uint64_t> sent_{0};
  std::atomic<std::uint64_t> consumed_{0};
  alignas(base::CACHE_LINE) base::spinlock lock_;
  boost::intrusive::list<
      work,
      boost::intrusive::member_hook<work, decltype(work::in_connection), &work::in_connection>,
      boost::intrusive::constant_time_size<false>>
      works_;
  std::uint32_t open_ = 0;
  std::atomic<std::uint32_t> all_{0}, writes_{0}, silent_writes_{0};
};

}  // namespace lci::ofi
