// What was unmapped since the last look, and a number that changes when something is. Written
// inside munmap() and free(), by whatever thread calls them and whatever locks it holds; read by
// region_cache.
// Threads: add() and epoch() any, without a lock, a system call or an allocation; drain(), watch()
// and unwatch() one at a time. Always true: once add() has returned for a watched range, epoch()
// differs from before, and a drain() that returns the new epoch has shown the range, or said that
// it was lost. Unmapping a range that is not watched changes nothing, so programs may map and unmap
// elsewhere.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lci/base/platform.hpp"
#include "lci/base/race_point.hpp"

namespace lci::mem {

class unmap_log {
 public:
  static constexpr std::size_t SLOTS = 256;  // ranges between two looks; with more, all is stale

  // What was learned at an epoch holds while the epoch is the same.
  std::uint64_t epoch() const noexcept {
    // edge unmap.epoch: partner is add().
    return epoch_.load(std::memory_order_acquire);
  }

  void add(std::uintptr_t begin, std::size_t size) noexcept {
    if (size == 0 || !may_be_watched(begin, size)) return;
    if (!try_record(begin, begin + size)) {
      // edge unmap.epoch: before the number below; partner is drain().
      is_lost_.store(true, std::memory_order_release);
    }
    // edge unmap.epoch: a thread that reads this number finds the record; partners are epoch() and
    // drain().
    epoch_.fetch_add(1, std::memory_order_acq_rel);
  }

  // Passes each range to visit(begin, end); calls lost() if there were too many. Returns the epoch
  // up to which everything was shown.
  template <class Visit, class Lost>
  std::uint64_t drain(Visit&& visit, Lost&& lost) {
    const std::uint64_t now = epoch();
    if (now == drained_) return now;
    drained_ = now;
    // A record that is being written belongs to memory that is still mapped: it comes next time.
    for (record& one : records_) {
      // edge unmap.record: partner is try_record().
      if (one.state.load(std::memory_order_acquire) != FULL) continue;
      const std::uintptr_t begin = one.begin, end = one.end;
      one.state.store(FREE, std::memory_order_release);  // edge unmap.record
      visit(begin, end);
    }
    // edge unmap.epoch: partner is add().
    if (is_lost_.exchange(false, std::memory_order_acq_rel)) lost();
    return now;
  }

  // Between these two calls, unmapping in the range matters.
  void watch(std::uintptr_t begin, std::size_t size) noexcept { count(begin, size, 1); }
  void unwatch(std::uintptr_t begin, std::size_t size) noexcept { count(begin, size, ~0u); }

 private:
  static constexpr std::uint32_t FREE = 0, WRITING = 1, FULL = 2;
  static constexpr unsigned BLOCK_SHIFT = 21;  // ranges are watched in blocks of 2 MiB
  static constexpr std::size_t BUCKETS = 4096;
  static constexpr std::size_t MAX_BLOCKS = BUCKETS / 4;  // of one range; a longer one is "wide"

  struct record {
    std::atomic<std::uint32_t> state{FREE};
    std::uintptr_t begin = 0, end = 0;
  };

  static std::size_t bucket_of(std::uintptr_t block) noexcept { return block % BUCKETS; }
  static std::size_t blocks_of(std::uintptr_t begin, std::size_t size) noexcept {
    return ((begin + size - 1) >> BLOCK_SHIFT) - (begin >> BLOCK_SHIFT) + 1;
  }

  void count(std::uintptr_t begin, std::size_t size, std::uint32_t delta) noexcept {
    any_.fetch_add(delta, std::memory_order_relaxed);
    const std::size_t blocks = blocks_of(begin, size);
    if (blocks > MAX_BLOCKS) {
      wide_.fetch_add(delta, std::memory_order_relaxed);
      return;
    }
    const std::uintptr_t first = begin >> BLOCK_SHIFT;
    // edge unmap.watch: a range that replaces one is counted before that one is not any more;
    // partner is may_be_watched().
    for (std::size_t i = 0; i < blocks; ++i)
      watched_[bucket_of(first + i)].fetch_add(delta, std::memory_order_release);
  }

  // Memory that is unmapped was registered before, in the program's own order, so relaxed loads see
  // it; a range that shares its bucket may be noticed late.
  bool may_be_watched(std::uintptr_t begin, std::size_t size) const noexcept {
    if (any_.load(std::memory_order_relaxed) == 0) return false;
    if (wide_.load(std::memory_order_relaxed) != 0) return true;
    const std::size_t blocks = blocks_of(begin, size);
    if (blocks > MAX_BLOCKS) return true;
    LCI_RACE_POINT("unmap_log.may_be_watched.before_blocks");
    const std::uintptr_t first = begin >> BLOCK_SHIFT;
    for (std::size_t i = 0; i < blocks; ++i) {
      // edge unmap.watch: partner is count().
      if (watched_[bucket_of(first + i)].load(std::memory_order_acquire) != 0) return true;
    }
    // Again: a wide range may have replaced one in these blocks since the first look.
    return wide_.load(std::memory_order_relaxed) != 0;
  }

  bool try_record(std::uintptr_t begin, std::uintptr_t end) noexcept {
    if (is_lost_.load(std::memory_order_relaxed)) return false;
    for (record& one : records_) {
      std::uint32_t expected = one.state.load(std::memory_order_relaxed);
      // edge unmap.record: what the last reader did with it came before; partner is drain().
      if (expected != FREE ||
          !one.state.compare_exchange_strong(expected, WRITING, std::memory_order_acquire,
                                             std::memory_order_relaxed))
        continue;
      one.begin = begin;
      one.end = end;
      LCI_RACE_POINT("unmap_log.try_record.before_full");
      one.state.store(FULL, std::memory_order_release);  // edge unmap.record: partner is drain()
      return true;
    }
    return false;
  }

  alignas(base::CACHE_LINE) std::atomic<std::uint64_t> epoch_{1};  // read by every hit
  alignas(base::CACHE_LINE) std::atomic<bool> is_lost_{false};
  std::atomic<std::uint32_t> any_{0};
  std::atomic<std::uint32_t> wide_{0};
  std::uint64_t drained_ = 1;
  std::array<record, SLOTS> records_;
  std::array<std::atomic<std::uint32_t>, BUCKETS> watched_{};
};

}  // namespace lci::mem
