// The queues behind a device index: a completion queue, a shared receive queue, and a queue pair
// for each peer that was talked to, on each card. Base of the event queue, which polls them.
// Callers: endpoint; connector makes connections. Threads: posts shared; make_connection() under
// the connector's lock. Always true: the completion queue has a place for everything that may be
// under way.
#pragma once

#include <memory>

#include "backends/ibv/cards.hpp"
#include "backends/ibv/completions.hpp"
#include "backends/ibv/connection.hpp"
#include "backends/ibv/multi_rail.hpp"
#include "backends/ibv/qpn_map.hpp"
#include "backends/ibv/receives.hpp"
#include "backends/ibv/region.hpp"
#include "backends/ibv/wire.hpp"
#include "lci/base/biased_lock.hpp"
#include "lci/net/connected/device_queues.hpp"

namespace lci::ibv {

class device_queues : public net::connected::device_queues<connection, note> {
 public:
  using place = receives::place;

  // Each message that waits has a receive.
  std::size_t read_ahead() const noexcept { return receives_.size(); }
  device_queues(cards& on, regions& memory, net::connected::connect_requests& requests, int index,
                const net::device_config& wanted);
  ~device_queues();

  cards& behind() noexcept { return cards_; }
  regions& memory() noexcept { return memory_; }
  // Those on the other cards; null: there is one. Set before there is a connection.
  rail_queues* rails() const noexcept { return rails_.get(); }
  void set_rails(std::unique_ptr<rail_queues> rails) noexcept { rails_ = std::move(rails); }
  // A queue pair for that rank, not connected yet. Throws backend_error.
  connection& make_connection(int rank);
  // Sends a note, now or at a later poll. The peer may have ended: then it is not needed.
  void tell(int rank, const note& what) noexcept;
  void tell_withdrawn(int rank, net::remote_key name) noexcept {
    tell(rank, {note::kind::withdrawn, name.slot, name.generation, 0});
  }
  // No user is told any more how what is under way ends. By the only thread that uses the device.
  void forget_users() noexcept;
  // No user waits for anything.
  bool is_drained() const noexcept {
    return is_quiet() && are_all([](const connection& on) { return on.is_drained(); });
  }

 protected:
  bool send_note(int rank, const note& what) noexcept;

  cards& cards_;
  regions& memory_;
  receives receives_;
  completions cq_;
  qpn_map by_qpn_;

 private:
  thread_domain next_home();

  const std::uint32_t depth_;      // of each send queue
  const std::uint32_t reserved_;   // of it, for control endpoints
  thread_domain domain_;           // of all queue pairs, if they share one
  base::biased_lock domain_lock_;  // posts in it
  std::size_t made_ = 0;           // connections; under the connector's lock
  std::unique_ptr<rail_queues> rails_;
};

}  // namespace lci::ibv
