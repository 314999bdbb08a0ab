// One more card, and what a device has on it: queue pairs that carry pieces of large writes and
// reads and nothing else. Owned by side_queues. Callers: these. Threads: find() shared;
// make_connection() under the connector's lock; next() the device's polling thread. Always true:
// the completion queue has a place for everything that may be under way.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/ibv/cards.hpp"
#include "backends/ibv/completions.hpp"
#include "backends/ibv/connection.hpp"
#include "backends/ibv/qpn_map.hpp"

namespace lci::ibv {

class side {
 public:
  side(const rail& on, std::uint32_t depth, std::size_t ranks);

  const rail& on() const noexcept { return rail_; }
  connection* find(int rank) const noexcept {
    // edge ibv.side: partner is make_connection().
    return connections_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire);
  }
  // The one there is, or a new one. Throws backend_error.
  connection& make_connection(int rank);
  // The next completion: 1, or 0 if there is none, or less if the queue cannot be polled. One that
  // failed is kept back until `is_dry`: what its peer had sent over the first card comes before.
  int next(ibv_wc& out, bool is_dry) noexcept {
    if (!has_held_) {
      if (const int n = cq_.poll(&held_, 1); n <= 0) return n;
      has_held_ = true;
    }
    if (held_.status != IBV_WC_SUCCESS && !is_dry) return 0;
    has_held_ = false;
    out = held_;
    return 1;
  }
  connection* by_qpn(std::uint32_t qpn) const noexcept { return by_qpn_.find(qpn); }

 private:
  const rail& rail_;
  const std::uint32_t depth_;
  completions cq_;
  qpn_map by_qpn_;
  std::vector<std::atomic<connection*>> connections_;  // by rank
  std::vector<std::unique_ptr<connection>> store_;
  ibv_wc held_{};  // the polling thread's, as the next
  bool has_held_ = false;
};

}  // namespace lci::ibv
