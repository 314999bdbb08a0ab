// The receives of a device: for each place a packet that was given to the provider. Owned by
// device_queues. Threads: the polling thread. Always true: a place is posted, or waits to be posted
// again, or has no packet since the program keeps the one that it had.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/ofi/queues.hpp"
#include "backends/ofi/region.hpp"
#include "lci/mem/packet_pool.hpp"

namespace lci::ofi {

class receives {
 public:
  static constexpr int MOST = 256;
  struct place : ticket {
    place() noexcept : ticket(kind::receive) {}
    mem::packet* packet = nullptr;
  };

  // Throws backend_error.
  receives(const queues& on, const opened_domain& domain, regions& memory,
           mem::packet_pool& packets, std::size_t most);

  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(places_.size()); }
  // That receive has been used up: its packet is to be posted again.
  void again(place& used) noexcept {
    if (!post(used)) waiting_.push_back(&used);
  }
  // The same, but its packet has got another owner.
  void replace(place& used) noexcept {
    used.packet = nullptr;
    again(used);
  }
  // Posts all that is not posted, as far as there are packets.
  void post_rest() noexcept;
  bool are_all_posted() const noexcept { return waiting_.empty(); }
  // Once the endpoint is closed.
  void give_back() noexcept;

 private:
  bool post(place& one) noexcept;

  fid_ep* const ep_;
  regions& memory_;
  mem::packet_pool& packets_;
  const std::size_t head_;  // bytes in front of each payload that belong to the message
  std::vector<place> places_;
  std::vector<place*> waiting_;  // has room for all
};

}  // namespace lci::ofi
