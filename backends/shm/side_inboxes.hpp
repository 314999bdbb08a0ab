// The threads that share a device and are not its poller, and which lanes each of them polls:
// those whose messages meet its receives, and some of those whose messages are for no particular
// thread. A lane is lent to a thread only while that thread polls all the time; if it stops, the
// lane is taken back. Why: docs/decisions/0056-lanes-for-each-thread.md.
// Callers: device, for the calling thread; inbox, which is the poller's. Threads: of() and make()
// any, for themselves; the rest the device's poller, outside of its sink unless it says otherwise.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/shm/side_inbox.hpp"

namespace lci::shm {

class side_inboxes {
 public:
  side_inboxes(connections& peers, int index) noexcept;
  ~side_inboxes();
  side_inboxes(const side_inboxes&) = delete;
  side_inboxes& operator=(const side_inboxes&) = delete;

  // That of the calling thread, or null.
  side_inbox* of(std::uint32_t thread) const noexcept {
    // Relaxed: made by the thread itself, or by an earlier one with its number.
    return thread < MAX_SIDES ? sides_[thread].load(std::memory_order_relaxed) : nullptr;
  }
  // The same, made if need be; null for want of memory, or if the number is too large.
  LCI_COLD side_inbox* make(std::uint32_t thread) noexcept;
  // Has any other thread ever come by?
  bool are_any() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }

  // Lends lanes to others and takes them back, if the last time was some while ago. may_lend: else
  // it only takes back, which may be inside a sink. `active` has room for all lanes.
  void look(std::vector<rx_lane*>& active, std::uint64_t now, bool may_lend) noexcept;
  // Takes in the lanes that have come back. Inside a sink as well.
  void take_returned(std::vector<rx_lane*>& active) noexcept;
  // Takes all lanes back. False: some threads are inside, and return theirs in their next poll.
  // Inside a sink as well.
  bool recall(std::vector<rx_lane*>& active) noexcept;
  // The calling thread has become the poller, maybe inside of a sink: its own lanes come along.
  LCI_COLD void join(side_inbox& own, std::vector<rx_lane*>& active) noexcept;
  // For tests: lanes that are lent now, and how often one was.
  std::size_t lent() const noexcept { return lent_.load(std::memory_order_relaxed); }
  std::uint64_t times() const noexcept { return times_.load(std::memory_order_relaxed); }

  static constexpr std::uint32_t MAX_SIDES = OWN_LANES;
  lending_rules rules;  // when lanes are lent

 private:
  // What the poller knows of each.
  struct known {
    std::uint32_t visits = 0;  // at the last look
    std::uint32_t steady = 0;  // looks in a row that found it polling
    std::uint32_t lanes = 0;   // that it has
  };
  void take_in(rx_lane* first, std::vector<rx_lane*>& active, bool is_its_own) noexcept;
  void look_at_threads(std::vector<rx_lane*>& active) noexcept;
  void lend(std::vector<rx_lane*>& active, std::uint64_t now) noexcept;
  void lend_to(side_inbox& to, rx_lane& lane, std::uint64_t now) noexcept;
  side_inbox* whose(const rx_lane& lane, std::size_t own) const noexcept;
  side_inbox* steady(std::uint32_t thread) const noexcept;
  side_inbox* least_laden() const noexcept;

  connections& peers_;
  std::atomic<std::uint32_t>& announce_;
  std::array<std::atomic<side_inbox*>, MAX_SIDES> sides_{};
  std::atomic<std::uint32_t> count_{0};
  lane_list returned_;
  // Of the poller.
  std::array<known, MAX_SIDES> known_{};
  std::atomic<std::size_t> lent_{0};
  std::atomic<std::uint64_t> times_{0};
  std::uint64_t next_look_ = 0;
};

}  // namespace lci::shm
