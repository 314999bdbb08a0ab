#include "backends/shm/device.hpp"

#include <algorithm>

#include "backends/shm/connections.hpp"
#include "backends/shm/device_queues.hpp"
#include "backends/shm/endpoint.hpp"
#include "lci/base/spin.hpp"

namespace lci::shm {

// The next device of this index may be polled by another thread, which should not have to wait.
device::~device() { queues_.polling.disown(); }

std::unique_ptr<net::endpoint> device::make_endpoint() {
  return std::make_unique<endpoint>(peers_, queues_);
}

std::size_t device::poll(net::sink& to, std::size_t max) noexcept {
  device_queues& queues = queues_;
  if (!queues.polling.enter()) {
    base::turn_away::wait();
    return 0;
  }
  base::turn_away::end();
  std::size_t n = queues.in.poll(to, std::min(max, max_polls_));
  if (queues.flow.is_busy()) [[unlikely]]
    n += queues.flow.poll(to);
  queues.polling.leave();
  return n;
}

// Every device is told of every peer that ends.
bool device::may_bring(int rank) const noexcept { return peers_.find(rank) != nullptr; }

bool device::is_drained() const noexcept { return queues_.flow.is_drained(); }

}  // namespace lci::shm
