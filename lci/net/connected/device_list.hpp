// The queues of a fabric by device index, each made when its device is, and kept. Owned by a fabric
// whose queues outlive device objects. Threads: shared.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lci/errors.hpp"

namespace lci::net::connected {

// Against numbers that make no sense: a device costs as much as its queues, a number nothing.
inline constexpr int MAX_DEVICES = 1024;

// Queue: find(), request().
template <class Queue>
class device_list {
 public:
  // network: for messages; a literal.
  explicit device_list(const char* network) : network_(network) {}

  // The one of that device; `make` answers a new one, and is called under the lock. Throws
  // backend_error: an index that makes no sense, and what `make` throws.
  template <class Make>
  Queue& get(int device, Make&& make) {
    if (device < 0 || device >= MAX_DEVICES)
      throw backend_error(std::string(network_) + ": device index " + std::to_string(device) +
                          " is outside 0 to " + std::to_string(MAX_DEVICES - 1) +
                          ": there are at most " + std::to_string(MAX_DEVICES) +
                          " devices at a time");
    const std::lock_guard lock(mutex_);
    const auto at = static_cast<std::size_t>(device);
    if (at >= queues_.size()) queues_.resize(at + 1);
    std::unique_ptr<Queue>& where = queues_[at];
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
  // The same of one device, whether others have a connection or not.
  void request(int rank, int device) noexcept {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    const auto at = static_cast<std::size_t>(device);
    if (!lock || at >= queues_.size() || !queues_[at]) return;
    if (queues_[at]->find(rank) == nullptr) queues_[at]->request(rank);
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
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace lci::net::connected
