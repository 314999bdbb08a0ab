// Counters that many threads increment and that are read now and then: one line per thread, so
// that an increment is a plain load and store by the line's owner. Threads: add() any; sum() any,
// exact once no thread adds or all adds are ordered before the call. Always true: a thread id has
// one live owner at a time (base/thread_id), so no update is lost; threads beyond the limit share
// the last line with a locked add.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "lci/base/platform.hpp"
#include "lci/base/thread_id.hpp"

namespace lci::base {

class thread_counter {
 public:
  void add(std::int64_t n) noexcept { add(n, thread_id()); }
  // id: of the calling thread, for callers that have asked for it already.
  void add(std::int64_t n, std::uint32_t id) noexcept { add_up(n, id); }
  // Adds 1 and answers what the calling thread has added in all; beyond the limit of threads, what
  // those have.
  std::int64_t count_up() noexcept {
    const std::uint32_t id = detail::thread_id_tls;
    // One test for both that are seldom: no number yet, and none of its own.
    if (id >= OVERFLOW_THREAD) [[unlikely]]
      return add_up(1, thread_id());
    return add_own(1, lines_[id].value);
  }
  std::int64_t sum() const noexcept {
    std::int64_t total = 0;
    // edge counter.sum: partner is add_up().
    for (const line& l : lines_) total += l.value.load(std::memory_order_acquire);
    return total;
  }

 private:
  std::int64_t add_up(std::int64_t n, std::uint32_t id) noexcept {
    std::atomic<std::int64_t>& mine = lines_[id].value;
    // edge counter.sum: what was done before this add is visible to a reader whose acquire load in
    // sum() sees it.
    if (id == OVERFLOW_THREAD) [[unlikely]]
      return mine.fetch_add(n, std::memory_order_release) + n;
    return add_own(n, mine);
  }
  static std::int64_t add_own(std::int64_t n, std::atomic<std::int64_t>& mine) noexcept {
    const std::int64_t total = mine.load(std::memory_order_relaxed) + n;
    mine.store(total, std::memory_order_release);  // edge counter.sum: partner is sum()
    return total;
  }
  struct alignas(CACHE_LINE) line {
    std::atomic<std::int64_t> value{0};
  };
  std::array<line, MAX_THREADS + 1> lines_{};
};

}  // namespace lci::base
