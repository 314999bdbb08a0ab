// Who serves the endpoints of one device: progress on it, or a thread of the library that makes
// progress on it too. Callers: side. Threads: add() and remove() one at a time, and not in a
// handler. Always true: each endpoint is served by one thread at a time; without endpoints there is
// neither a thread nor an instruction in progress.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "lci/base/spin.hpp"
#include "lci/proto/engine/attached.hpp"
#include "lci/proxy/endpoint.hpp"

namespace lci::proxy {

class proxy_driver final : private proto::attachment {
 public:
  proxy_driver(device_impl_t& device, attr_gpu_proxy_t how) : device_(device), how_(how) {}
  ~proxy_driver();
  proxy_driver(const proxy_driver&) = delete;
  proxy_driver& operator=(const proxy_driver&) = delete;

  // Throws backend_error where no thread can be started.
  void add(endpoint& one);
  void remove(endpoint& one) noexcept;
  // Makes progress on the device and lets fn() look while no thread serves, until it answers true.
  template <class Fn>
  void wait_until(Fn&& fn);

  device_impl_t& device() const noexcept { return device_; }
  attr_gpu_proxy_t how() const noexcept { return how_; }

 private:
  std::size_t poll() noexcept override;
  void run() noexcept;
  void stop() noexcept;

  device_impl_t& device_;
  const attr_gpu_proxy_t how_;
  std::mutex mutex_;  // guards endpoints_, and is held while they are served
  std::vector<endpoint*> endpoints_;
  std::thread thread_;
  bool is_running_ = false;  // attached, or the thread is
  std::atomic<bool> is_over_{false};
  // Others want the mutex: the thread lets them.
  std::atomic<int> wanted_{0};
};

template <class Fn>
void proxy_driver::wait_until(Fn&& fn) {
  for (base::spin_wait wait;;) {
    {
      wanted_.fetch_add(1, std::memory_order_relaxed);
      const std::lock_guard lock(mutex_);
      wanted_.fetch_sub(1, std::memory_order_relaxed);
      if (fn()) return;
    }
    if (device_.queues.progress_unheard())
      wait.reset();
    else
      wait();
  }
}

}  // namespace lci::proxy
