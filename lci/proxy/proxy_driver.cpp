#include "lci/proxy/proxy_driver.hpp"

#include <sched.h>

#include <exception>

#include "lci/base/spin.hpp"
#include "lci/errors.hpp"

namespace lci::proxy {

proxy_driver::~proxy_driver() { stop(); }

void proxy_driver::add(endpoint& one) {
  bool is_first = false;
  {
    // Relaxed, here and below: asks for fairness only.
    wanted_.fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    wanted_.fetch_sub(1, std::memory_order_relaxed);
    is_first = endpoints_.empty();
    endpoints_.push_back(&one);
  }
  if (!is_first) return;
  is_running_ = true;
  if (how_ == attr_gpu_proxy_t::progress) return device_.queues.above.attach(*this);
  is_over_.store(false, std::memory_order_relaxed);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::exception& error) {
    endpoints_.clear();
    is_running_ = false;
    throw backend_error(std::string("gpu_proxy thread: a thread could not be started: ") +
                        error.what());
  }
}

void proxy_driver::remove(endpoint& one) noexcept {
  bool is_last = false;
  {
    wanted_.fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    wanted_.fetch_sub(1, std::memory_order_relaxed);
    std::erase(endpoints_, &one);
    is_last = endpoints_.empty();
  }
  if (is_last) stop();
}

void proxy_driver::stop() noexcept {
  if (!is_running_) return;
  is_running_ = false;
  if (how_ == attr_gpu_proxy_t::progress) return device_.queues.above.detach();
  is_over_.store(true, std::memory_order_relaxed);  // joining orders the rest
  if (thread_.joinable()) thread_.join();
}

// Only one thread serves; a second one, or a handler that makes progress, passes by.
std::size_t proxy_driver::poll() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return 0;
  std::size_t work = 0;
  for (endpoint* const one : endpoints_) work += one->serve_st();
  return work;
}

void proxy_driver::run() noexcept {
  base::spin_wait wait;
  while (!is_over_.load(std::memory_order_relaxed)) {
    std::size_t work = 0;
    {
      const std::lock_guard lock(mutex_);
      for (endpoint* const one : endpoints_) work += one->serve_st();
    }
    while (wanted_.load(std::memory_order_relaxed) != 0) sched_yield();
    work += device_.queues.progress_unheard() ? 1 : 0;
    if (work != 0)
      wait.reset();
    else
      wait();
  }
}

}  // namespace lci::proxy
