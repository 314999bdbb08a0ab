// What peers have registered, as they say it: asked for at first use, and kept until they withdraw
// it. Owned by fabric. Threads: shared. Always true: a name finds its own registration or nothing,
// since names are given once.
#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "backends/ofi/wire.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/net/backend.hpp"

namespace lci::ofi {

class port;

class lookups {
 public:
  explicit lookups(int ranks) : peers_(static_cast<std::size_t>(ranks)) {}

  // What is known; not_connected: it will be asked for. An unknown key is told once, then asked for
  // again.
  net::remote_view find(int rank, net::remote_key name) noexcept;
  bool has_work() const noexcept { return open_.load(std::memory_order_relaxed) != 0; }
  // Asks, over links of that port, what has to be asked.
  void serve(port& by) noexcept;
  // The peer's answer.
  void settle(int rank, const note& said) noexcept;
  // The peer has withdrawn it.
  void drop(int rank, net::remote_key name) noexcept;
  // That rank will not answer any more.
  void forget(int rank) noexcept;

 private:
  struct request {
    int rank = -1;
    net::remote_key name;
    bool is_sent = false;
  };
  struct peer {
    std::unordered_map<std::uint32_t, note> rows;  // by slot: row or no_row
  };
  void ask_locked(int rank, net::remote_key name);
  bool take_question(const port& by, int& rank, net::remote_key& name) noexcept;

  base::spinlock lock_;  // guards everything below
  std::vector<peer> peers_;
  std::vector<request> requests_;
  std::atomic<std::size_t> open_{0};  // requests that were not sent
};

}  // namespace lci::ofi
