// Ranks to which posts want a connection that is not there yet, until the thread that connects
// takes them, and the flag that says so. Owned by the queues behind a device and by the connector.
// Threads: shared. Always true: a rank is in the list once, however often it is asked for.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lci::net::connected {

class pending_connects {
 public:
  explicit pending_connects(std::size_t ranks) : of_(ranks) {}
  // True if it was not in the list.
  bool add(int rank) noexcept {
    // Relaxed: the thread that takes the list is told by connect_requests. Looked at first, since
    // posts repeat.
    std::atomic<bool>& mine = of_[static_cast<std::size_t>(rank)];
    if (mine.load(std::memory_order_relaxed)) return false;
    mine.store(true, std::memory_order_relaxed);
    return true;
  }
  // Throws std::bad_alloc: they stay in the list. One that comes in meanwhile may stay as well.
  std::vector<int> take() {
    std::vector<int> out;
    out.reserve(static_cast<std::size_t>(std::count_if(of_.begin(), of_.end(), [](const auto& one) {
      return one.load(std::memory_order_relaxed);
    })));
    for (std::size_t rank = 0; rank < of_.size() && out.size() < out.capacity(); ++rank)
      if (of_[rank].exchange(false, std::memory_order_relaxed))
        out.push_back(static_cast<int>(rank));
    return out;
  }

 private:
  std::vector<std::atomic<bool>> of_;
};

// What the polls of a fabric have to look after beside messages: requests, calls, rows that are
// asked for. Relaxed: a hint; what is counted says itself what is to be done.
class attention {
 public:
  void add() noexcept { due_.fetch_add(1, std::memory_order_relaxed); }
  void drop() noexcept { due_.fetch_sub(1, std::memory_order_relaxed); }
  bool is_due() const noexcept { return due_.load(std::memory_order_relaxed) != 0; }

 private:
  std::atomic<std::uint32_t> due_{0};
};

// That some list has something in it.
class connect_requests {
 public:
  explicit connect_requests(attention& polls) noexcept : polls_(polls) {}
  // edge connect.request: the rank is in the list of its device before; partner is take().
  void raise() noexcept {
    if (!is_raised_.exchange(true, std::memory_order_release)) polls_.add();
  }
  // edge connect.request: partner is raise().
  bool take() noexcept {
    if (!is_raised_.exchange(false, std::memory_order_acquire)) return false;
    polls_.drop();
    return true;
  }

 private:
  attention& polls_;
  std::atomic<bool> is_raised_{false};
};

}  // namespace lci::net::connected
