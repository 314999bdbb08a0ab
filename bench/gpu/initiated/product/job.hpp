// What a row stands on: a runtime with its devices, endpoints of tier T3 and registered memory.
// Threads: single. Always true: keys `there` have no mapping, so that every call with one is a
// request; a kernel that waits in vain is ended by the endpoint's limit.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/gpu/initiated/product/processor.hpp"

namespace bench {

constexpr std::uint64_t WAIT_LIMIT_MS = 3000;

class job {
 public:
  // resident: blocks of the copy kernel; none in threads.
  job(processor& on, int resident, int devices) : resident_(on.is_gpu() ? resident : 0) {
    runtime_ = lci::alloc_runtime_x().gpu_resident(resident_)();
    devices_.push_back(lci::get_default_device_x().runtime(runtime_)());
    for (int i = 1; i < devices; ++i) devices_.push_back(lci::alloc_device_x().runtime(runtime_)());
  }
  ~job() {
    for (std::size_t i = 1; i < devices_.size(); ++i) lci::free_device(&devices_[i]);
    lci::free_runtime(&runtime_);
  }
  job(const job&) = delete;
  job& operator=(const job&) = delete;

  lci::runtime_t runtime() const { return runtime_; }
  lci::device_t device(std::size_t i = 0) const { return devices_[i % devices_.size()]; }
  std::size_t devices() const { return devices_.size(); }
  void progress() {
    for (const lci::device_t one : devices_) lci::progress_x().device(one)();
  }

  // What is known of the way: the library counts no deliveries.
  std::string way(const lci::gpu::key_t& there) const {
    return std::string("\"tier\": \"") + (there.of_card != 0 ? "card" : "T3 CPU proxy") +
           "\", \"mapped\": " + (there.mapped != 0 ? "true" : "false") +
           ", \"devices\": " + std::to_string(devices_.size()) +
           ", \"gpu_resident\": " + std::to_string(runtime_.get_attr_gpu_resident());
  }

 private:
  int resident_;
  lci::runtime_t runtime_;
  std::vector<lci::device_t> devices_;
};

struct endpoint_wanted {
  lci::attr_gpu_proxy_t proxy = lci::attr_gpu_proxy_t::thread;
  unsigned depth = 1024;
  std::uint64_t wait_limit_ms = WAIT_LIMIT_MS;
};

class endpoint {
 public:
  endpoint(processor& on, const job& of, const endpoint_wanted& w, std::size_t device = 0)
      : handle_(lci::alloc_gpu_endpoint_x(of.device(device))
                    .gpu(on.gpu())
                    .gpu_proxy(w.proxy)
                    .gpu_tier(lci::attr_gpu_tier_t::proxy)
                    .depth(w.depth)
                    .wait_limit_ms(w.wait_limit_ms)
                    .runtime(of.runtime())()) {}
  ~endpoint() { lci::free_gpu_endpoint(&handle_); }
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;
  lci::gpu::endpoint_t handle() const { return handle_; }
  void abort() { lci::abort_gpu_endpoint(handle_); }

 private:
  lci::gpu::endpoint_t handle_;
};

enum class kind { of_gpu, pinned };

class memory {
 public:
  memory(processor& on, const job& of, std::size_t size, kind what)
      : on_(on), what_(what), size_(size) {
    at_ = static_cast<unsigned char*>(what == kind::of_gpu ? on.of_gpu(size) : on.pinned(size));
    mr_ = lci::register_memory_x(at_, size).device(of.device()).runtime(of.runtime())();
  }
  ~memory() {
    lci::deregister_memory(&mr_);
    what_ == kind::of_gpu ? on_.free_of_gpu(at_) : on_.free_pinned(at_);
  }
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;

  unsigned char* at() const { return at_; }
  std::uint64_t* word(std::uint64_t offset) const {
    return reinterpret_cast<std::uint64_t*>(at_ + offset);
  }
  void clear() {
    what_ == kind::of_gpu ? on_.clear(at_, size_) : static_cast<void>(std::memset(at_, 0, size_));
  }
  // As requests name it, and as the kernels of that endpoint read it.
  lci::gpu::key_t there() const { return lci::get_gpu_key(mr_); }
  lci::gpu::key_t own(const endpoint& of) const {
    return lci::get_gpu_key_x(mr_).endpoint(of.handle())();
  }

 private:
  processor& on_;
  kind what_;
  std::size_t size_;
  unsigned char* at_;
  lci::mr_t mr_;
};

// Pinned words that are not registered.
class pinned_words {
 public:
  pinned_words(processor& on, std::size_t count)
      : on_(on), at_(static_cast<std::uint64_t*>(on.pinned(count * 64))) {}
  ~pinned_words() { on_.free_pinned(at_); }
  pinned_words(const pinned_words&) = delete;
  pinned_words& operator=(const pinned_words&) = delete;
  // A line apart.
  std::uint64_t* at(std::size_t i) const { return at_ + 8 * i; }

 private:
  processor& on_;
  std::uint64_t* at_;
};

// Until the kernels of the first `streams` streams have ended. With the thread it only looks from
// time to time; else it makes progress.
inline void drive(processor& on, job& of, int streams, lci::attr_gpu_proxy_t proxy) {
  const std::uint64_t begin = host_ns();
  for (int s = 0; s < streams;) {
    if (on.is_over(s)) {
      ++s;
    } else if (proxy == lci::attr_gpu_proxy_t::progress) {
      for (int i = 0; i < 100; ++i) of.progress();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    if (host_ns() - begin > 10 * PATIENCE_NS) throw std::runtime_error("kernels do not end");
  }
  of.progress();  // throws what the thread has met
}

inline const char* name_of(lci::attr_gpu_proxy_t proxy) {
  return proxy == lci::attr_gpu_proxy_t::thread ? "thread" : "progress";
}

}  // namespace bench
