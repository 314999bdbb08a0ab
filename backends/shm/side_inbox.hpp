// Lanes of a device that are polled by another thread than the device's poller, one of those that
// share the device. It presents plain messages only; a lane in which something else comes next goes
// back to the poller. Callers: device, in the thread that the lanes were lent to; side_inboxes.
// Threads: the thread of the side inbox, inside `polling`; the device's poller takes that over to
// get lanes back; lend() and returned lanes pass between the two. Always true: a lane is in one
// place: the poller's inbox, or one side inbox, or on its way between them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backends/shm/lane.hpp"
#include "lci/base/owned.hpp"
#include "lci/net/backend.hpp"

namespace lci::shm {

class connections;

// Lanes that come back. Any thread adds, one takes all.
class lane_list {
 public:
  void add(rx_lane& lane) noexcept {
    rx_lane* head = first_.load(std::memory_order_relaxed);
    do lane.link = head;
    // edge lane.pass: what was done with the lane before; partner is take_all().
    while (!first_.compare_exchange_weak(head, &lane, std::memory_order_release,
                                         std::memory_order_relaxed));
  }
  bool any() const noexcept { return first_.load(std::memory_order_relaxed) != nullptr; }
  // Linked by rx_lane::link.
  rx_lane* take_all() noexcept {
    // edge lane.pass: partner is add().
    return first_.exchange(nullptr, std::memory_order_acquire);
  }

 private:
  std::atomic<rx_lane*> first_{nullptr};
};

// When lanes are lent. Tests that want it often change this while no thread polls.
struct lending_rules {
  // Microseconds between two looks of the poller, at least: it looks when it reads the clock, which
  // is every 64th poll or four times a millisecond. A thread that has not come by in the meantime
  // has its lanes taken.
  std::uint64_t look_every_us = 50;
  // Looks in a row that find a thread polling until it gets lanes.
  std::uint32_t steady_after = 4;
  // Messages between two looks from which a lane is worth lending.
  std::uint32_t busy_from = 16;
  // Drains in a row that met receives of one thread, or of no particular one, until the lane may
  // move.
  std::uint8_t sure_after = 32;
  // A lane that comes back sooner than this waits as long until it is lent again, and twice as long
  // each further time, up to 32 times as long.
  std::uint64_t soon_us = 1000;
  static constexpr std::uint8_t MOST_RETURNS = 6;  // that count
};

class side_inbox {
 public:
  side_inbox(connections& peers, const lending_rules& rules, std::atomic<std::uint32_t>& announce,
             lane_list& returned, std::uint32_t thread) noexcept
      : peers_(peers), rules_(rules), announce_(announce), returned_(returned), thread_(thread) {}
  side_inbox(const side_inbox&) = delete;
  side_inbox& operator=(const side_inbox&) = delete;

  // By its thread. Answers how many messages were presented.
  std::size_t poll(net::sink& to, std::size_t max) noexcept;
  // By its thread, after a poll that has found so much: true now and then, since one thread has to
  // be the device's poller.
  bool is_to_try(std::size_t found) noexcept;
  // By its thread: it holds lanes, or some were lent to it.
  bool has_lanes() const noexcept {
    return arriving_.any() || lanes_.load(std::memory_order_relaxed) != nullptr;
  }
  std::uint32_t thread() const noexcept { return thread_; }

  // By the device's poller. Its thread finds the lane at its next poll.
  void lend(rx_lane& lane) noexcept { arriving_.add(lane); }
  // How often its thread has come by. A hint.
  std::uint32_t visits() const noexcept { return visits_.load(std::memory_order_relaxed); }
  // By its thread, whose poll found nothing.
  void come_by() noexcept { visits_.store(visits() + 1, std::memory_order_relaxed); }
  // All lanes, linked, with nothing owed. False: its thread is inside.
  bool take_all(rx_lane*& out) noexcept;
  // Then: its thread is to give them back in its next poll, also in one from a handler.
  void recall() noexcept { is_recalled_.store(true, std::memory_order_relaxed); }
  // The same when its thread itself has become the poller; it may be inside.
  rx_lane* take_all_own() noexcept;

  // Messages in a row of one lane until another one's turn comes.
  static constexpr std::size_t TURN = 16;
  // After so many polls that found something, or so many that found nothing, its thread reads the
  // clock, and tries to become the poller if it has not for as long as a poller may be idle. More
  // often would disturb the poller: one way of 8 pairs of threads took 500 ns instead of 425 with
  // one try in four idle polls.
  static constexpr std::uint32_t LOOK_BUSY = 64, LOOK_IDLE = 8;
  // Polls until a lane that brought nothing in them goes back.
  static constexpr std::uint32_t REVIEW_EVERY = 4096;

 private:
  std::size_t drain(rx_lane& lane, net::sink& to, std::size_t most) noexcept;
  net::verdict present(rx_lane& lane, const slot& s, slot_header header, net::sink& to) noexcept;
  void begin() noexcept;
  LCI_COLD void give_all_back() noexcept;
  LCI_COLD void review() noexcept;
  void rotate() noexcept;
  void remove(rx_lane& lane) noexcept;
  LCI_COLD void give_back(rx_lane& lane) noexcept;
  rx_lane* take_all_inside() noexcept;

  connections& peers_;
  const lending_rules& rules_;
  std::atomic<std::uint32_t>& announce_;
  lane_list& returned_;
  const std::uint32_t thread_;
  base::owned polling_;
  lane_list arriving_;
  std::atomic<bool> is_recalled_{false};
  // Changed inside `polling_`. Read outside by its own thread alone, as a hint.
  std::atomic<rx_lane*> lanes_{nullptr};
  rx_lane* presenting_ = nullptr;  // as in inbox
  std::uint32_t version_ = 0;      // counted up by a poll inside a poll, and with lanes taken
  bool is_to_settle_ = false;
  // Of its thread.
  std::uint32_t looked_ = 0;       // polls since it read the clock, idle ones with more weight
  std::uint64_t tried_ticks_ = 0;  // when it tried
  std::uint32_t polls_to_review_ = REVIEW_EVERY;
  alignas(base::CACHE_LINE) std::atomic<std::uint32_t> visits_{0};
};

}  // namespace lci::shm
