// A lane: a ring of slots with one producer and one consumer, in the producer's arena. This file
// holds the two private ends.
//
// A slot is written by the producer alone, and read by the consumer alone: a bit of its header says
// in which lap it was written. What the consumer is done with it counts in a line of its own, which
// the producer reads when the lane seems full, once a lap in a stream. So a message moves the line
// of its slot to the consumer, and the next lap moves it back; nothing else moves
// (docs/decisions/0058-a-slot-is-written-by-one-side.md).
//
// Callers: endpoint and bulk_stream (tx), inbox and side_inbox (rx). Threads: each end is single;
// which thread that is, outbox, device_queues and side_inboxes say.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "backends/shm/layout.hpp"
#include "lci/base/copy.hpp"
#include "lci/base/platform.hpp"
#include "lci/mem/packet.hpp"
#include "lci/net/wanted_by.hpp"

namespace lci::shm {

struct peer;
class side_inbox;

using base::copy_small;

namespace detail {
extern const slot never_filled;  // where a dead lane looks
// Polls by the calling thread of devices of this backend whose poller it is. Those beside another
// poller do not count; whether they should makes no difference that could be measured.
extern constinit thread_local std::uint32_t polls_tls __attribute__((tls_model("initial-exec")));
}  // namespace detail

// The producer's end.
struct tx_lane {
  slot* slots = nullptr;  // null until the lane is made; until then it seems full
  // The position of the next message. Written by the producer alone, read by fences of other
  // threads.
  std::atomic<std::uint32_t> tail{LANE_SLOTS};
  // Its peer has ended, and its memory was given back. Here, since a post has this line anyway.
  std::atomic<std::uint32_t> is_closed{0};
  const consumed_count* consumed = nullptr;
  std::uint32_t seen = 0;           // of it, at the last look; the producer's
  std::uint32_t polls_at_post = 0;  // by the thread of the last post, at that

  void begin(slot* all, std::uint32_t position, const consumed_count& count) noexcept {
    // Relaxed: a thread that writes to it gets it from here, or from the block's pointer.
    tail.store(position, std::memory_order_relaxed);
    seen = position;
    consumed = &count;
    slots = all;
  }
  // Relaxed: it brings nothing along. Another thread that knows of a message sees its number.
  std::uint32_t position() const noexcept { return tail.load(std::memory_order_relaxed); }
  slot& at(std::uint32_t position) const noexcept { return slots[position % LANE_SLOTS]; }
  slot& next() const noexcept { return at(position()); }
  // Relaxed: a post that comes too early to see it does no harm, see outbox::close_locked().
  bool seems_closed() const noexcept { return is_closed.load(std::memory_order_relaxed) != 0; }
  // Full by what is known; is_full() asks again.
  bool seems_full() const noexcept { return position() - seen >= LANE_SLOTS; }
  bool is_full() noexcept { return seems_full() && is_still_full(); }
  // Makes next(), whose data is in place, the consumer's.
  void publish(slot_header header) noexcept { publish(position(), next(), header); }
  // The same for a caller that has asked where that is: what has been written to the slot keeps
  // compilers from reusing what they know.
  void publish(std::uint32_t position, slot& s, slot_header header) noexcept {
    // edge slot.publish: data before header; partner is the acquire load in rx_lane::look().
    s.header.store(header.pack() | lap_bit(position), std::memory_order_release);
    move_on(position + 1);
  }
  // Behind a small message of so many bytes: fetches lines of a later one. The first line, if the
  // thread has hardly polled since the one before: it is likely to write more of them. Not in an
  // exchange, where that line would only be taken away once more by the consumer that polls it. The
  // second line, if this message had one: nobody polls that, and while stores wait for it the
  // consumer takes the first line away from those behind them. None that the consumer may still
  // have to read.
  void prefetch_behind(std::uint32_t position, std::size_t size) noexcept {
    const std::uint32_t polls = detail::polls_tls;
    const bool is_stream = polls - polls_at_post <= POLLS_IN_STREAM;
    const std::uint32_t later = position + (is_stream ? PREFETCHED : 1);
    polls_at_post = polls;
    if (later - seen >= LANE_SLOTS) return;
    if (is_stream) base::prefetch_for_write(&at(later));
    if (size > FIRST_LINE_DATA) base::prefetch_for_write(at(later).data + FIRST_LINE_DATA);
  }
  // From 2 to 8 there is little difference; none, or 16, halves the rate of a stream.
  static constexpr std::uint32_t PREFETCHED = 4;
  static constexpr std::uint32_t POLLS_IN_STREAM = 1;
  // Has the message that was written as number `which` been consumed?
  // edge slot.free: what it asked for is done; partner is rx_lane::settle().
  bool is_consumed(std::uint32_t which) const noexcept {
    return is_overwritten(which) ||
           static_cast<std::int32_t>(consumed->load(std::memory_order_acquire) - which) > 0;
  }

 private:
  // edge lane.lap: what the producer learned before it wrote the message, which is that the one a
  // lap before was consumed; partner is is_overwritten().
  void move_on(std::uint32_t position) noexcept { tail.store(position, std::memory_order_release); }
  // edge lane.lap, reader.
  bool is_overwritten(std::uint32_t which) const noexcept {
    return tail.load(std::memory_order_acquire) - which > LANE_SLOTS;
  }
  LCI_COLD bool is_still_full() noexcept {
    // edge slot.free: the consumer has read what is now overwritten; partner is rx_lane::settle().
    const std::uint32_t now = consumed->load(std::memory_order_acquire);
    // What the peer says may be wrong: more than was written, or less than before.
    if (position() - now >= LANE_SLOTS) return true;
    seen = now;
    return false;
  }
};
static_assert(sizeof(tx_lane) == 32);

// The consumer's end. Its cursor moves on before a message is presented, so a sink that polls again
// sees what is behind it. Always true, unless it is dead: paid + owed is the cursor, or one less
// while a message is presented.
struct rx_lane {
  const slot* next = nullptr;  // at the cursor: every poll looks there
  slot* slots = nullptr;       // in our mapping of the sender's arena
  std::uint32_t cursor = 0;    // messages taken up, plus where the lane starts
  std::uint32_t owed = 0;      // messages done with that the sender has not been told of
  int rank = -1;
  bool is_dead = false;           // the sender broke the rules, or gave its memory back
  std::uint8_t patience = 0;      // drains to come that take one message each
  std::uint8_t silent_looks = 0;  // of inbox, since the cursor was at `looked_at`
  std::uint32_t looked_at = 0;
  std::uint32_t paid = 0;  // what `consumed` says
  consumed_count* consumed = nullptr;
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
  static constexpr std::uint32_t MOST_OWED = 32;
  // Puts read in the sender's put_ring since it was told of messages.
  std::uint32_t ring_puts = 0;
  static constexpr std::uint32_t MOST_RING_PUTS = 4;
  // Packets of the sender that have been read, and that it has not been told of either.
  std::uint32_t packet_count = 0;
  std::array<mem::packet*, MOST_OWED> packets;

  // What was drained was for that thread, or for NOBODY in particular.
  void note_wanted(std::uint32_t thread) noexcept {
    if (thread != wanted_by) wanted_times = 0;
    wanted_by = thread;
    if (wanted_times != 255) ++wanted_times;
  }
  void begin(slot* all, std::uint32_t position, consumed_count& count) noexcept {
    slots = all;
    consumed = &count;
    looked_at = paid = position;
    move_to(position);
  }
  void move_to(std::uint32_t position) noexcept {
    cursor = position;
    next = &at(position);
  }
  // Nothing of it is looked at any more.
  void kill() noexcept {
    is_dead = true;
    owed = packet_count = 0;
    cursor = first_position(0);
    next = &detail::never_filled;
  }
  slot& at(std::uint32_t position) const noexcept { return slots[position % LANE_SLOTS]; }
  // The header at the cursor, for is_message().
  // edge slot.publish: partner of tx_lane::publish().
  std::uint64_t look() const noexcept { return next->header.load(std::memory_order_acquire); }
  // Is that a message of this lap?
  bool is_message(std::uint64_t header) const noexcept {
    return ((header ^ lap_bit(cursor)) & LAP_BIT) == 0;
  }
  bool is_empty() const noexcept { return !is_message(look()); }
  // Is the lap bit of the next message set?
  bool waits_for_set_bit() const noexcept { return lap_bit(cursor) != 0; }
  // The look behind the nth message of a drain: is there another one? A look that finds nothing
  // takes the line away from a sender that is about to write it, so where it found nothing behind
  // the first messages, the next drains do without it: what came meanwhile the next poll finds.
  bool goes_on(std::size_t n) noexcept {
    if (patience != 0) {
      --patience;
      return false;
    }
    if (!is_empty()) return true;
    if (n <= FEW) patience = PATIENCE;
    return false;
  }
  static constexpr std::size_t FEW = 2;
  static constexpr std::uint8_t PATIENCE = 4;
  // The message before the cursor is done with. The sender is told late: at the next poll that
  // finds nothing, or when MOST_OWED are. That store waits for its line, stores leave a core in
  // order, and the next one may be the answer to this message.
  // See docs/decisions/0006-late-hand-back.md.
  void hand_back() noexcept {
    if (++owed == MOST_OWED) [[unlikely]]
      settle();
  }
  // The same, but now: for a sink that polls again while it looks at the message before the cursor.
  // The cursor may then come round to that slot, so nothing must be owed.
  void hand_back_last() noexcept {
    ++owed;
    settle();
  }
  // A packet of the sender has been read, and goes back as late as slots do, for the same reason:
  // see docs/decisions/0062-packets-go-back-late.md.
  void hand_back(mem::packet& p) noexcept {
    packets[packet_count] = &p;
    if (++packet_count == MOST_OWED) [[unlikely]]
      hand_back_packets();
  }
  // The bytes of the message before the cursor have been read in the sender's ring. The sender is
  // told soon, but not of this one yet, so that it writes the next ones to lines that both have had
  // lately.
  void count_ring_put() noexcept {
    if (++ring_puts == MOST_RING_PUTS) [[unlikely]]
      settle();
  }
  bool is_settled() const noexcept { return owed == 0 && packet_count == 0; }
  // Pays what is owed; called when there was nothing else to do.
  void settle() noexcept {
    ring_puts = 0;
    if (packet_count != 0) hand_back_packets();
    if (owed == 0) return;
    paid += std::exchange(owed, 0);
    // edge slot.free: partners are tx_lane::is_consumed() and is_still_full().
    consumed->store(paid, std::memory_order_release);
  }
  // The message before the cursor is to be presented again.
  void put_back() noexcept { move_to(cursor - 1); }

 private:
  void hand_back_packets() noexcept {
    for (std::uint32_t i = 0; i < packet_count; ++i) mem::return_borrowed(*packets[i]);
    packet_count = 0;
  }
};

}  // namespace lci::shm
