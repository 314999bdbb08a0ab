#include "backends/shm/fabric.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "backends/shm/device.hpp"
#include "backends/shm/device_queues.hpp"
#include "backends/shm/layout.hpp"
#include "lci/errors.hpp"

namespace lci::shm {
namespace {

// A quarter of the cache that the copying core has to itself: the data, its copy, and as much for
// the program.
std::size_t best_at_once() noexcept {
  const long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);  // 0 or -1: not known
  if (cache <= 0) return std::size_t{512} * 1024;
  return std::clamp(static_cast<std::size_t>(cache) / 4, std::size_t{256} * 1024,
                    std::size_t{1024} * 1024);
}

}  // namespace

fabric::fabric(const net::fabric_config& config) : peers_(config), queues_(MAX_DEVICES) {
  caps_.max_inject = SLOT_DATA;
  caps_.max_send = CHUNK_MAX;
  caps_.max_rma = std::size_t{1} << 62;
  caps_.best_at_once = best_at_once();
  caps_.write_with_immediate = true;
  caps_.one_sided = false;
  caps_.ordered = true;
  caps_.needs_keys = false;
}

fabric::~fabric() = default;

// The lanes of a thread to a peer are all alike: there are no queues to size.
std::unique_ptr<net::device> fabric::make_device(int index, net::device_config& config) {
  if (index < 0 || index >= static_cast<int>(MAX_DEVICES)) {
    throw backend_error("shm: device index " + std::to_string(index) + " is outside 0 to " +
                        std::to_string(MAX_DEVICES - 1) + ": there are at most " +
                        std::to_string(MAX_DEVICES) + " devices at a time");
  }
  const std::lock_guard lock(queues_mutex_);
  std::unique_ptr<device_queues>& here = queues_[static_cast<std::size_t>(index)];
  if (here == nullptr) {
    here = std::make_unique<device_queues>(peers_, index);
    peers_.add(index, here->out);
  }
  return std::make_unique<device>(peers_, *here, config.shm_max_polls);
}

}  // namespace lci::shm
