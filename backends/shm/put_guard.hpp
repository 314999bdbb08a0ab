// Which puts to a peer may leave by a lane and count as in order at once: those that go by the only
// lane there is.
//
// Lanes know no order between them. The thread that puts announces the put and then looks whether
// its lane is still alone; the thread that opens a second one says that it is not, passes a barrier
// on all threads (as in base/owned), and then looks for announcements. So one of the two sees the
// other. Owned by the outbox, one for each peer. Threads: begin() and cancel() are for the thread
// that holds the lane; may_open() and opened() run under the connections' lock; the rest is shared.
// Always true: a second lane is opened only when the peer has consumed every put that begin()
// granted.
#pragma once

#include <atomic>
#include <cstdint>

#include "backends/shm/lane.hpp"
#include "lci/base/owned.hpp"
#include "lci/base/race_point.hpp"

namespace lci::shm {

class put_guard {
 public:
  static constexpr std::uint32_t NO_LANE = ~0u;

  // Relaxed: a hint, begin() decides.
  bool may_put() const noexcept { return !many_.load(std::memory_order_relaxed); }
  // The next message of this lane is such a put. False: not any more, and cancel() is to follow;
  // else it is to be published now.
  bool begin(const tx_lane& lane) noexcept {
    const std::uint32_t position = lane.position();
    if (!LCI_TSAN && base::detail::plain_fence.load(std::memory_order_relaxed)) [[likely]] {
      // edge outbox.put: the other side's heavy_fence() stands for the barrier missing between this
      // store and the load below.
      end_.store(position + 1, std::memory_order_release);
      base::compiler_fence();
    } else {
      end_.exchange(position + 1, std::memory_order_seq_cst);  // edge outbox.put, locked form
    }
    LCI_RACE_POINT("outbox.put.announced");
    return !many_.load(std::memory_order_seq_cst);
  }
  // All that lies before it is as good. edge outbox.put: partner is has_open().
  void cancel(const tx_lane& lane) noexcept {
    end_.store(lane.position(), std::memory_order_release);
  }

  // The number of the lane that was opened first, or NO_LANE.
  // edge outbox.first: partner is opened().
  std::uint32_t first() const noexcept { return first_.load(std::memory_order_acquire); }
  // Are there puts on their way in it? One that is announced and not yet published counts.
  bool has_open(const tx_lane& first_lane) const noexcept {
    // edge outbox.put: partner is begin().
    const std::uint32_t end = end_.load(std::memory_order_seq_cst);
    return first_lane.position() + 1 == end || !first_lane.is_consumed(end - 1);
  }
  // The position behind the last of them that may be relied on.
  std::uint32_t end_of_open(const tx_lane& first_lane) const noexcept {
    const std::uint32_t end = end_.load(std::memory_order_acquire);  // edge outbox.put
    const std::uint32_t position = first_lane.position();
    // A put that is only announced has not been answered, so nothing relies on it. Those before it
    // count.
    return static_cast<std::int32_t>(end - position) > 0 ? position : end;
  }

  // May a second lane be opened? False: not now.
  bool may_open(const tx_lane& first_lane) noexcept {
    many_.store(true, std::memory_order_seq_cst);  // edge outbox.put: partner is begin()
    return base::heavy_fence() && !has_open(first_lane);
  }
  // A lane has its slots.
  void opened(std::uint32_t lane) noexcept {
    if (first_.load(std::memory_order_relaxed) != NO_LANE) return;
    // edge outbox.first: the lane before its number; partner is first().
    first_.store(lane, std::memory_order_release);
  }

 private:
  std::atomic<std::uint32_t> first_{NO_LANE};
  std::atomic<std::uint32_t> end_{0};  // position behind its last put; or the next's
  std::atomic<bool> many_{false};      // a second lane is open, or about to be
};

}  // namespace lci::shm
