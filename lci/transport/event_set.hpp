// The descriptor of a transport for event loops: what its hub watches, a timer, and a second
// descriptor by which one thread wakes another that sleeps here. Owned by core. Threads: fd() and
// sleep() any, the rest under core::mutex_.
#pragma once

#include <chrono>

#include "lci/base/unshared.hpp"
#include "lci/boot/fd.hpp"

namespace lci::transports {

class event_set {
 public:
  using time = std::chrono::steady_clock::time_point;

  // Throws backend_error.
  explicit event_set(int hub_fd);
  int fd() const noexcept { return epoll_.get(); }
  // The descriptor is readable from then on; max(): never. Costs a system call if that changes.
  void wake_at(time when) noexcept;
  // The timer has been looked at: it is not readable any more.
  void take_timer(time now) noexcept;
  time armed_for() const noexcept { return armed_; }

  // Sleeps until fd() is readable, kick(), or the time.
  void sleep(time until) noexcept;
  void kick() noexcept;

 private:
  base::descriptor epoll_, timer_, kick_;
  time armed_ = time::max();
};

}  // namespace lci::transports
