// A lane: a ring of slots with one producer and one consumer, in the producer's arena. This file
// holds the two private ends.
//
// The producer looks only at the slot that it is about to use: a header of 0 means that the
// consumer has handed it back, anything else that the lane is full. There is no head or tail in
// shared memory. Slots are not prefetched, see docs/decisions/0005-prefetch-for-write.md.
//
// Callers: endpoint and stream (tx), inbox (rx). Threads: each end is single; which thread that is,
// outbox and port say.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "backends/shm/layout.hpp"
#include "lci/base/copy.hpp"
#include "lci/base/platform.hpp"

namespace lci::shm {

struct peer;

using base::copy_small;

// The producer's end.
struct tx_lane {
  slot* slots = nullptr;  // null until the lane is made
  // Messages written; the next one's slot is tail % LANE_SLOTS. Written by the producer alone, read
  // by fences of other threads.
  std::atomic<std::uint32_t> tail{0};
  std::atomic<std::uint32_t> gone{0};  // the peer is gone; set by whoever notices

  // Relaxed here and below: the producer's own number.
  std::uint32_t position() const noexcept { return tail.load(std::memory_order_relaxed); }
  slot& next() const noexcept { return slots[position() % LANE_SLOTS]; }
  bool is_full() const noexcept { return !next().is_free(); }
  // Makes next(), whose data is in place, the consumer's.
  void publish(slot_header header) noexcept { publish(next(), header); }
  void publish(slot& s, slot_header header) noexcept {
    // edge slot.publish: data before header; partner is the acquire load in rx_lane::look().
    s.header.store(header.pack(), std::memory_order_release);
    tail.store(position() + 1, std::memory_order_relaxed);
  }
  // Has the message that was written as number `which` been consumed?
  bool is_consumed(std::uint32_t which) const noexcept {
    return position() - which > LANE_SLOTS ||
           slots[which % LANE_SLOTS].header.load(std::memory_order_acquire) == 0;
  }
};
static_assert(sizeof(tx_lane) == 16);

// The consumer's end. Its cursor moves on before a message is presented, so a sink that polls again
// sees what is behind it.
struct rx_lane {
  slot* slots = nullptr;        // in our mapping of the sender's arena
  std::uint32_t cursor = 0;     // messages taken up
  std::uint32_t state = 0;      // messages being presented right now (nested polls), DEAD, HELD
  std::uint32_t open_from = 0;  // the first of these messages, if any
  slot* owed = nullptr;         // done with and not handed back yet
  int rank = -1;
  peer* from = nullptr;
  // Messages that were put back after a nested poll had gone past them, oldest first; they come
  // before the cursor.
  std::vector<std::uint32_t> held;

  // Bits of `state`, above the count. One word, because it is asked about before every message.
  static constexpr std::uint32_t DEAD = 1u << 16;  // the sender broke the rules
  static constexpr std::uint32_t HELD = 1u << 17;  // !held.empty()

  slot& at(std::uint32_t position) const noexcept { return slots[position % LANE_SLOTS]; }
  bool is_open() const noexcept { return (state & (DEAD - 1)) != 0; }
  bool is_dead() const noexcept { return (state & DEAD) != 0; }
  bool has_held() const noexcept { return (state & HELD) != 0; }
  // Counts the message at a position as being presented, and no more.
  void open(std::uint32_t position) noexcept {
    if (!is_open()) open_from = position;
    ++state;
  }
  void close() noexcept { --state; }
  // The header at a position, 0 if there is nothing.
  // edge slot.publish: partner of tx_lane::publish().
  std::uint64_t look(std::uint32_t position) const noexcept {
    return at(position).header.load(std::memory_order_acquire);
  }
  // Gives a slot back, but one message late. Stores leave a core in order, and this one waits until
  // the line has come over from the producer; handed back at once it would hold up the very next
  // store, which in a handler or right after progress() is the answer to this message. See
  // docs/decisions/0006-late-hand-back.md.
  void hand_back(std::uint32_t position) noexcept {
    settle();
    owed = &at(position);
    // After a nested poll the cursor may be a whole lap ahead: it must not meet a slot that is
    // owed.
    if (position + 1 != cursor) [[unlikely]]
      settle();
  }
  // Pays what is owed; called when there was nothing else to do.
  void settle() noexcept {
    if (owed == nullptr) return;
    // edge slot.free: partner of slot::is_free().
    owed->header.store(0, std::memory_order_release);
    owed = nullptr;
  }
  // Anything but the plain case: something held, something open, nobody to read from.
  bool is_special() const noexcept { return state != 0; }
  // While a message is open its slot is not free, and the cursor must not meet it again. What is
  // held is no concern: it is presented before the cursor moves.
  bool is_wrapped() const noexcept { return is_open() && cursor - open_from >= LANE_SLOTS; }
  bool is_empty() const noexcept { return !is_open() && !has_held() && look(cursor) == 0; }

  // Gives a presented message back to be presented again, before anything behind it.
  void put_back(std::uint32_t position) {
    if (position + 1 == cursor && !has_held()) {
      cursor = position;
      return;
    }
    auto at_place = held.begin();
    while (at_place != held.end() && static_cast<std::int32_t>(*at_place - position) < 0)
      ++at_place;
    held.insert(at_place, position);
    state |= HELD;
  }
  std::uint32_t take_held() {
    const std::uint32_t position = held.front();
    held.erase(held.begin());
    if (held.empty()) state &= ~HELD;
    return position;
  }
};

}  // namespace lci::shm
