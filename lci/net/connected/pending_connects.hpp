// Ranks to which posts want a connection that is not there yet, until whoever connects takes them,
// and the flag that says so. Owned by the queues behind a device and by the connector. Threads:
// shared. Always true: a rank is in the list once, however often it is asked for.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

namespace lci::net::connected {

class pending_connects {
 public:
  explicit pending_connects(std::size_t ranks) : of_(ranks) {}
  // True if it was not in the list.
  bool add(int rank) noexcept {
    // Relaxed: whoever takes the list is told by connect_requests. Looked at first, since posts
    // repeat.
    std::atomic<bool>& mine = of_[static_cast<std::size_t>(rank)];
    if (mine.load(std::memory_order_relaxed)) return false;
    mine.store(true, std::memory_order_relaxed);
    return true;
  }
  std::vector<int> take() {
    std::vector<int> out;
    for (std::size_t rank = 0; rank < of_.size(); ++rank)
      if (of_[rank].exchange(false, std::memory_order_relaxed))
        out.push_back(static_cast<int>(rank));
    return out;
  }

 private:
  std::vector<std::atomic<bool>> of_;
};

// That some list has something in it.
class connect_requests {
 public:
  // edge connect.request: the rank is in the list of its device before; partner is take().
  void raise() noexcept { is_raised_.store(true, std::memory_order_release); }
  bool is_raised() const noexcept { return is_raised_.load(std::memory_order_relaxed); }
  // edge connect.request: partner is raise().
  bool take() noexcept { return is_raised_.exchange(false, std::memory_order_acquire); }

 private:
  std::atomic<bool> is_raised_{false};
};

}  // namespace lci::net::connected
