// Which connection a queue pair number means: open addressing, at least twice as many places as
// ranks. Owned by device_queues or a side. Threads: find() shared, enter() one at a time. Always
// true: a connection that was entered stays.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/ibv/connection.hpp"

namespace lci::ibv {

class qpn_map {
 public:
  explicit qpn_map(std::size_t ranks) : mask_(std::bit_ceil(2 * ranks + 1) - 1), all_(mask_ + 1) {}

  connection* find(std::uint32_t qpn) const noexcept {
    for (std::size_t at = qpn;; ++at) {
      const named& place = all_[at & mask_];
      // edge ibv.qpn: partner is enter().
      const std::uint32_t found = place.qpn.load(std::memory_order_acquire);
      if (found == qpn) [[likely]]
        return place.on.load(std::memory_order_relaxed);
      if (found == 0) return nullptr;
    }
  }
  void enter(connection& made) {
    const std::uint32_t qpn = made.qp->qp_num;
    for (std::size_t at = qpn;; ++at) {
      named& place = all_[at & mask_];
      if (place.on.load(std::memory_order_relaxed) != nullptr) continue;
      place.on.store(&made, std::memory_order_relaxed);
      // edge ibv.qpn: partner is find().
      place.qpn.store(qpn, std::memory_order_release);
      return;
    }
  }

 private:
  struct named {
    std::atomic<std::uint32_t> qpn{0};
    std::atomic<connection*> on{nullptr};
  };
  const std::size_t mask_;
  std::vector<named> all_;
};

}  // namespace lci::ibv
