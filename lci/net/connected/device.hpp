// A device object: a face of the queues behind a device index. Threads: as net::device says.
#pragma once

#include <cstddef>
#include <memory>

#include "lci/net/backend.hpp"

namespace lci::net::connected {

// Queue: the backend's event_queue. Endpoint: make(queue, is_control).
template <class Queue, class Endpoint>
class device final : public net::device {
 public:
  explicit device(Queue& queue) noexcept : queue_(queue) {}
  ~device() override {
    // A caller that has given up waiting for the rest is not there any more when it ends.
    if (!queue_.is_drained()) queue_.forget_users();
    queue_.end_questions();
    // The next device of this index may be polled by another thread, which should not have to wait.
    queue_.leave_polling();
  }
  std::unique_ptr<net::endpoint> make_endpoint() override { return Endpoint::make(queue_, false); }
  std::unique_ptr<net::endpoint> make_control_endpoint() override {
    return Endpoint::make(queue_, true);
  }
  std::size_t poll(sink& to, std::size_t max) noexcept override { return queue_.poll(to, max); }
  bool is_drained() const noexcept override { return queue_.is_drained(); }
  bool may_bring(int rank) const noexcept override { return queue_.find(rank) != nullptr; }

 private:
  Queue& queue_;
};

}  // namespace lci::net::connected
