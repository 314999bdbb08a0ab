#include "backends/shm/device.hpp"

#include <algorithm>

#include "backends/shm/endpoint.hpp"
#include "backends/shm/port.hpp"

namespace lci::shm {

// The next device of this index may be polled by another thread, which should not have to wait.
device::~device() { port_.polling.disown(); }

std::unique_ptr<net::endpoint> device::make_endpoint() {
  return std::make_unique<endpoint>(peers_, port_);
}

std::size_t device::poll(net::sink& to, std::size_t max) noexcept {
  port& p = port_;
  if (!p.polling.enter()) return 0;
  std::size_t n = p.in.poll(to, std::min(max, max_polls_));
  if (p.flow.is_busy()) [[unlikely]]
    n += p.flow.poll(to);
  p.polling.leave();
  return n;
}

// Every port is told of every peer that ends.
bool device::may_bring(int rank) const noexcept { return peers_.find(rank) != nullptr; }

bool device::is_drained() const noexcept { return port_.flow.is_drained(); }

}  // namespace lci::shm
