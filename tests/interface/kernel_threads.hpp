// What the tests of communication that kernels start stand on: threads of the process make the
// calls of kernels, with an endpoint made for them, while the main thread makes progress.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "lci/device.cuh"
#include "lci/gpu.hpp"
#include "world.hpp"

namespace interface_test {

// Runs body(i) in `count` threads; the main thread makes progress until all have ended, and then
// throws what progress threw first.
inline void run_kernel(int count, const std::function<void(int)>& body) {
  std::atomic<int> running{count};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      body(i);
      running.fetch_sub(1);
    });
  std::exception_ptr thrown;
  while (running.load() != 0) {
    try {
      progress();
    } catch (...) {
      if (thrown == nullptr) thrown = std::current_exception();
    }
  }
  for (std::thread& one : threads) one.join();
  if (thrown != nullptr) std::rethrow_exception(thrown);
}
inline void run_kernel(const std::function<void()>& body) {
  run_kernel(1, [&](int) { body(); });
}

// Of a test that is run with each proxy.
inline const char* proxy_name(const testing::TestParamInfo<lci::attr_gpu_proxy_t>& with) {
  return with.param == lci::attr_gpu_proxy_t::progress ? "progress" : "thread";
}

// An endpoint for threads, of the running test's device.
class thread_endpoint {
 public:
  explicit thread_endpoint(lci::attr_gpu_proxy_t how, std::uint32_t depth = 64)
      : ep_(lci::alloc_gpu_endpoint_x(world().device)
                .gpu(lci::gpu::NO_GPU)
                .gpu_proxy(how)
                .depth(depth)()) {}
  ~thread_endpoint() {
    if (!ep_.is_empty()) lci::free_gpu_endpoint(&ep_);
  }
  thread_endpoint(const thread_endpoint&) = delete;
  thread_endpoint& operator=(const thread_endpoint&) = delete;
  lci::gpu::endpoint_t& get() { return ep_; }
  operator lci::gpu::endpoint_t() const { return ep_; }

 private:
  lci::gpu::endpoint_t ep_;
};

// A place in a region of this process, or of a peer.
inline lci::gpu::place_t own_place(lci::gpu::endpoint_t ep, lci::mr_t mr,
                                   std::uint64_t offset = 0) {
  return {lci::get_gpu_key_x(mr).endpoint(ep)(), offset};
}
inline lci::gpu::place_t peer_place(lci::gpu::endpoint_t ep, const lci::rmr_t& rmr, int rank,
                                    std::uint64_t offset = 0) {
  return {lci::get_gpu_key_x(rmr).endpoint(ep).rank(rank)(), offset};
}

}  // namespace interface_test
