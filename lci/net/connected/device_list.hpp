// The queues of a fabric by device index, each made when its device is, and kept. Owned by a fabric
// whose queues outlive device objects. Threads: shared.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "lci/errors.hpp"

namespace lci::net::connected {

// Queue: find(), request().
template <class Queue>
class device_list {
 public:
  static constexpr int MAX_DEVICES = 64;

  // network: for messages; a literal.
  explicit device_list(const char* network) : network_(network) {}

  // The one of that device; `make` answers a new one, and is called under the lock. Throws
  // backend_error: an index that makes no sense, and what `make` throws.
  template <class Make>
  Queue& get(int device, Make&& make) {
    if (device < 0 || device >= MAX_DEVICES)
      throw backend_error(std::string(network_) + ": device index " + std::to_string(device) +
                          " is outside 0 to " + std::to_string(MAX_DEVICES - 1));
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Queue>& where = queues_[static_cast<std::size_t>(device)];
    if (!where) where = make();
    return *where;
  }
  // Asks for a connection to that rank, on any device that there is: what is asked of a peer then
  // is the same behind all of them. Nothing happens where another thread is inside.
  void request(int rank) noexcept {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;
    Queue* first = nullptr;
    for (const auto& one : queues_) {
      if (!one) continue;
      if (first == nullptr) first = one.get();
      if (one->find(rank) != nullptr) return;
    }
    if (first != nullptr) first->request(rank);
  }
  // use(queue), in order, until one answers true.
  template <class Use>
  void until(Use&& use) {
    const std::lock_guard lock(mutex_);
    for (const auto& one : queues_)
      if (one && use(*one)) return;
  }
  template <class Use>
  void for_each(Use&& use) {
    until([&](Queue& one) {
      use(one);
      return false;
    });
  }

 private:
  const char* const network_;
  std::mutex mutex_;  // guards what follows
  std::array<std::unique_ptr<Queue>, MAX_DEVICES> queues_;
};

}  // namespace lci::net::connected
