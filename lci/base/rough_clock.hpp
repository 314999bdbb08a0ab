// The time as of the last look of any thread of this process, for what happens with every message
// and is only shown to people: reading the processor's counter takes 11 ns where a load takes one.
// Threads: any. Called by progress, now and then, and by code that stamps a record.
// Always true: now() never runs backwards. How far it is behind cpu_ticks() depends on who looks.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lci/base/platform.hpp"

namespace lci::base {

class rough_clock {
 public:
  // Longer times without a look are remembered, so many of them.
  static constexpr std::uint64_t GAP_MS = 100;
  static constexpr std::size_t GAPS = 8;

  // In cpu_ticks(); 0: no thread has looked yet.
  std::uint64_t now() const noexcept { return ticks_.load(std::memory_order_relaxed); }

  // ticks: cpu_ticks(). Changes nothing before a millisecond has passed, so that the line stays
  // with its readers.
  void look(std::uint64_t ticks, std::uint64_t per_ms) noexcept {
    std::uint64_t last = ticks_.load(std::memory_order_relaxed);
    if (ticks < last + per_ms) return;
    if (!ticks_.compare_exchange_strong(last, ticks, std::memory_order_relaxed)) return;
    if (last == 0 || ticks - last < GAP_MS * per_ms) return;
    gap& mine = gaps_[next_.fetch_add(1, std::memory_order_relaxed) % GAPS];
    mine.from.store(0, std::memory_order_relaxed);       // told by the next store
    mine.until.store(ticks, std::memory_order_release);  // edge rough_clock.gap, writer, both
    mine.from.store(last, std::memory_order_release);
  }

  // The latest moment at which now() may have been `stamp`: a thread that made little progress for
  // long and then posts has not waited all that time. Until the next look, and when eight more such
  // times have passed, it is `stamp` itself.
  std::uint64_t latest(std::uint64_t stamp) const noexcept {
    if (stamp == 0) return 0;
    for (const gap& one : gaps_) {
      // edge rough_clock.gap, reader, both: a gap that is being replaced does not count.
      if (one.from.load(std::memory_order_acquire) != stamp) continue;
      const std::uint64_t until = one.until.load(std::memory_order_acquire);
      if (one.from.load(std::memory_order_relaxed) == stamp) return std::max(stamp, until);
    }
    return stamp;
  }

 private:
  struct gap {
    std::atomic<std::uint64_t> from{0};
    std::atomic<std::uint64_t> until{0};
  };
  alignas(CACHE_LINE) std::atomic<std::uint64_t> ticks_{0};  // relaxed: a number, nothing behind it
  alignas(CACHE_LINE) std::array<gap, GAPS> gaps_{};
  std::atomic<std::uint32_t> next_{0};
};

// Of the process: one is enough, since every thread that makes progress may look.
inline constinit rough_clock the_rough_clock;

}  // namespace lci::base
