// A lane: a ring of slots with one producer and one consumer, in the producer's arena. This file
// holds the two private ends.
//
// The producer looks only at the slot that it is about to use: a header of 0 means that the
// consumer has handed it back, anything else that the lane is full. There is no head or tail in
// shared memory. Slots are not prefetched, see docs/decisions/0005-prefetch-for-write.md.
//
// Callers: endpoint and stream (tx), inbox and side_inbox (rx). Threads: each end is single; which
// thread that is, outbox, device_queues and side_inboxes say.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "backends/shm/layout.hpp"
#include "lci/base/copy.hpp"
#include "lci/base/platform.hpp"
#include "lci/net/wanted_by.hpp"

namespace lci::shm {

struct peer;
class side_inbox;

using base::copy_small;

// The producer's end.
struct tx_lane {
  slot* slots = nullptr;  // null until the lane is made
  // Messages written, plus first_slot_of(); the next one's slot is tail % LANE_SLOTS. Written by
  // the producer alone, read by fences of other threads.
  std::atomic<std::uint32_t> tail{0};
  // Its peer has ended, and its memory was given back. Here, since a post has this line anyway.
  std::atomic<std::uint32_t> is_closed{0};

  // Relaxed: the producer's own number.
  std::uint32_t position() const noexcept { return tail.load(std::memory_order_relaxed); }
  // The same for other threads: what was published before it does not read as free any more.
  // edge lane.tail: partner is publish().
  std::uint32_t published() const noexcept { return tail.load(std::memory_order_acquire); }
  slot& next() const noexcept { return slots[position() % LANE_SLOTS]; }
  bool is_full() const noexcept { return !next().is_free(); }
  // Makes next(), whose data is in place, the consumer's.
  void publish(slot_header header) noexcept { publish(next(), header); }
  void publish(slot& s, slot_header header) noexcept {
    // edge slot.publish: data before header; partner is the acquire load in rx_lane::look().
    s.header.store(header.pack(), std::memory_order_release);
    // edge lane.tail: the header before the number; partner is published().
    tail.store(position() + 1, std::memory_order_release);
  }
  // Has the message that was written as number `which` been consumed?
  // edge slot.free: what it asked for is done; partner is rx_lane::settle().
  bool is_consumed(std::uint32_t which) const noexcept {
    return published() - which > LANE_SLOTS ||
           slots[which % LANE_SLOTS].header.load(std::memory_order_acquire) == 0;
  }
};
static_assert(sizeof(tx_lane) == 16);

namespace detail {
extern const slot never_filled;  // where a dead lane looks
}  // namespace detail

// The consumer's end. Its cursor moves on before a message is presented, so a sink that polls again
// sees what is behind it. Always true, but while a message is presented: the slots that are owed
// are those before the cursor.
struct rx_lane {
  const slot* next = nullptr;  // at the cursor: every poll looks there
  slot* slots = nullptr;       // in our mapping of the sender's arena
  std::uint32_t cursor = 0;    // messages taken up, plus where the lane starts
  std::uint32_t owed = 0;      // slots done with and not handed back yet
  int rank = -1;
  bool is_dead = false;           // the sender broke the rules
  std::uint8_t silent_looks = 0;  // of inbox, since the cursor was at `looked_at`
  std::uint32_t looked_at = 0;
  peer* from = nullptr;
  std::uint32_t number = 0;  // among those of its sender
  // Of side_inboxes, which lets other threads poll lanes.
  rx_lane* link = nullptr;           // the next one in a list
  side_inbox* lent_to = nullptr;     // known to the device's poller alone
  std::uint32_t counted_at = 0;      // where the cursor was at its last look
  std::uint32_t wanted_by = NOBODY;  // the thread whose receives the last drains met
  std::uint8_t wanted_times = 0;     // how many of them in a row, up to 255
  std::uint8_t returns = 0;          // how often in a row it came back soon
  std::uint64_t moved_at = 0;        // ticks; when it was lent or came back
  static constexpr std::uint32_t NOBODY = net::wanted_by::NOBODY;

  // What was drained was for that thread, or for NOBODY in particular.
  void note_wanted(std::uint32_t thread) noexcept {
    if (thread != wanted_by) wanted_times = 0;
    wanted_by = thread;
    if (wanted_times != 255) ++wanted_times;
  }
  void begin(slot* all, std::uint32_t first) noexcept {
    slots = all;
    looked_at = first;
    move_to(first);
  }
  void move_to(std::uint32_t position) noexcept {
    cursor = position;
    next = &at(position);
  }
  // Nothing of it is looked at any more.
  void kill() noexcept {
    is_dead = true;
    next = &detail::never_filled;
  }
  slot& at(std::uint32_t position) const noexcept { return slots[position % LANE_SLOTS]; }
  // The header at the cursor, 0 if there is nothing.
  // edge slot.publish: partner of tx_lane::publish().
  std::uint64_t look() const noexcept { return next->header.load(std::memory_order_acquire); }
  // Gives a slot back, but late: at the next poll that finds nothing, or when MOST_OWED are. The
  // store has to wait until the line has come over from the producer; stores leave a core in order,
  // so handed back at once it would hold up the next one, which may be the answer to this message,
  // and a locked instruction, which many completion objects have, waits for all stores before it.
  // See docs/decisions/0006-late-hand-back.md.
  static constexpr std::uint32_t MOST_OWED = 16;
  void hand_back() noexcept {
    if (owed == MOST_OWED) [[unlikely]]
      settle_before(cursor - 1);
    ++owed;
  }
  // The same, but now: for a sink that polls again while it looks at the message before the cursor.
  // The cursor may then come round to that slot, so nothing must be owed.
  void hand_back_last() noexcept {
    hand_back();
    settle();
  }
  // Pays what is owed; called when there was nothing else to do.
  void settle() noexcept { settle_before(cursor); }
  bool is_empty() const noexcept { return look() == 0; }
  // The message before the cursor is to be presented again.
  void put_back() noexcept { move_to(cursor - 1); }

 private:
  void settle_before(std::uint32_t end) noexcept {
    // edge slot.free: partner of slot::is_free().
    for (std::uint32_t left = std::exchange(owed, 0); left != 0; --left)
      at(end - left).header.store(0, std::memory_order_release);
  }
};

}  // namespace lci::shm
