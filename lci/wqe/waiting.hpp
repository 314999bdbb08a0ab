// How long a wait of this room may last: until an abort flag is set, or until nothing has moved for
// a time. A waiting thread counts its rounds with a waiter.
// Callers: queues and the C face. Threads: a waiter belongs to one wait; the flag may be set by
// any. Always true: no wait of this room is without a waiter; the flag and the clock are looked at
// in the first round and every CHECK_EVERY rounds.
#pragma once

#include <cstdint>

#include "lci/wqe/processor.hpp"
#include "lci/wqe/status.hpp"

namespace lci::wqe {

struct wait_limits {
  std::uint32_t* abort = nullptr;  // not 0: end every wait. Null: there is no such flag
  std::uint64_t limit_ns = 0;      // without progress; 0: no limit
};

class waiter {
 public:
  static constexpr std::uint32_t CHECK_EVERY = 32;

  LCI_ANYWHERE explicit waiter(const wait_limits& limits) noexcept : limits_(limits) {}

  // One round that found nothing. Not ok: the wait ends with this.
  LCI_ANYWHERE status operator()() noexcept {
    if (rounds_++ % CHECK_EVERY != 0) return status::ok;
    if (const status s = look(); s != status::ok) return s;
    if (rounds_ > 1) give_way();
    return status::ok;
  }
  // The flag and the clock, now: for a caller that counts rounds itself.
  LCI_ANYWHERE status look() noexcept {
    // Relaxed: nothing is read that the setter of the flag wrote before.
    if (limits_.abort != nullptr &&
        word_at<std::uint32_t>(limits_.abort).load(std::memory_order_relaxed) != 0)
      return status::aborted;
    if (limits_.limit_ns != 0) {
      const std::uint64_t now = clock_ns();
      if (since_ == 0) since_ = now;
      if (now - since_ >= limits_.limit_ns) return status::timed_out;
    }
    return status::ok;
  }

  // Something moved, if not yet what is waited for: the time begins anew.
  LCI_ANYWHERE void progressed() noexcept { since_ = 0; }
  // The same when `value`, which moves towards what is waited for, is another one than last time.
  LCI_ANYWHERE void saw(std::uint64_t value) noexcept {
    if (value != seen_) progressed();
    seen_ = value;
  }

 private:
  wait_limits limits_;
  std::uint64_t seen_ = 0;
  std::uint64_t since_ = 0;  // when the clock was read first; 0: not yet
  std::uint32_t rounds_ = 0;
};

}  // namespace lci::wqe
