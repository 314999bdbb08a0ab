// Endpoints for kernels that their program forgot: their device is freed, or their runtime, while
// threads in the place of kernels wait and post. Every call ends with a status, and nothing that is
// gone is touched, which the address sanitizer sees.
//   lcrun -n 2 interface_gpu_ends
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "lci.hpp"
#include "lci/device.cuh"
#include "lci/gpu.hpp"
#include "tests/support/watchdog.hpp"

namespace {

using lci::attr_gpu_proxy_t;
using lci::gpu::status;

bool is_end(status s) {
  return s == status::aborted || s == status::bad_endpoint || s == status::dead;
}

// Threads that make every kind of call that may last, on one endpoint.
class busy_kernels {
 public:
  busy_kernels(lci::device_t device, lci::runtime_t runtime, attr_gpu_proxy_t how)
      : ep_(lci::alloc_gpu_endpoint_x(device)
                .gpu(lci::gpu::NO_GPU)
                .gpu_proxy(how)
                .depth(16)
                .runtime(runtime)()),
        queue_(lci::alloc_gpu_queue_x(ep_).capacity(4)()),
        region_(lci::register_memory_x(words_.data(), sizeof(words_)).runtime(runtime)()),
        own_{lci::get_gpu_key(region_), 0} {
    start([this] { return lci::gpu::wait_until(ep_, &never_, lci::gpu::comparison::equal, 1); });
    start([this] { return lci::gpu::wait(queue_, nullptr, 0); });
    start([this] {
      lci::gpu::ticket_t ticket;
      const status s = lci::gpu::recv(ep_, me(), own_, 8, 5, &ticket);
      return s != status::ok ? s : lci::gpu::wait_receive(ep_, ticket);
    });
    start([this] {
      for (;;)
        if (const status s = lci::gpu::put(ep_, me(), {own_.key, 8}, own_, 8); s != status::ok)
          return s;
    });
    start([this] {
      for (;;)
        if (const status s = lci::gpu::quiet(ep_); s != status::ok) return s;
    });
    while (begun_.load() != threads_.size()) {
    }
  }
  // After the end of what it stands on.
  void expect_ended() {
    for (std::thread& one : threads_) one.join();
    for (const status s : ended_) EXPECT_TRUE(is_end(s)) << lci::wqe::text_of(s);
    EXPECT_EQ(lci::gpu::quiet(ep_), status::bad_endpoint);
    EXPECT_EQ(lci::gpu::put(ep_, 0, own_, own_, 8), status::bad_endpoint);
    EXPECT_EQ(lci::gpu::poll(queue_, nullptr, 0), status::bad_endpoint);
  }
  lci::mr_t& region() { return region_; }

 private:
  static int me() { return lci::get_rank_me(); }
  template <class Call>
  void start(Call&& call) {
    const std::size_t at = threads_.size();
    threads_.emplace_back([this, at, call] {
      begun_.fetch_add(1);
      ended_[at] = call();
    });
  }

  std::array<std::uint64_t, 4> words_{};
  std::uint64_t never_ = 0;
  lci::gpu::endpoint_t ep_;
  lci::gpu::queue_t queue_;
  lci::mr_t region_;
  lci::gpu::place_t own_;
  std::atomic<std::size_t> begun_{0};
  std::array<status, 5> ended_{};
  std::vector<std::thread> threads_;
};

class gpu_ends : public testing::TestWithParam<attr_gpu_proxy_t> {};

TEST_P(gpu_ends, device__freed_under_an_endpoint) {
  lci::runtime_t runtime = lci::alloc_runtime();
  lci::device_t device = lci::alloc_device_x().runtime(runtime)();
  busy_kernels kernels(device, runtime, GetParam());
  for (int i = 0; i < 100; ++i) lci::progress_x().device(device)();
  lci::free_device(&device);
  kernels.expect_ended();
  lci::deregister_memory(&kernels.region());
  // The runtime has endpoints as before.
  lci::device_t other = lci::alloc_device_x().runtime(runtime)();
  lci::gpu::endpoint_t ep = lci::alloc_gpu_endpoint_x(other)
                                .gpu(lci::gpu::NO_GPU)
                                .gpu_proxy(GetParam())
                                .runtime(runtime)();
  EXPECT_EQ(lci::gpu::quiet(ep), status::ok);
  lci::free_gpu_endpoint(&ep);
  lci::free_device(&other);
  lci::free_runtime(&runtime);
}

TEST_P(gpu_ends, runtime__freed_under_two_endpoints) {
  lci::runtime_t runtime = lci::alloc_runtime();
  const lci::device_t device = lci::get_default_device_x().runtime(runtime)();
  busy_kernels first(device, runtime, GetParam()), second(device, runtime, GetParam());
  for (int i = 0; i < 100; ++i) lci::progress_x().device(device)();
  lci::free_runtime(&runtime);
  first.expect_ended();
  second.expect_ended();
}

// What was posted before the end is done.
TEST_P(gpu_ends, device__puts_that_were_posted_are_there) {
  lci::runtime_t runtime = lci::alloc_runtime();
  lci::device_t device = lci::alloc_device_x().runtime(runtime)();
  std::array<std::uint64_t, 64> from, to{};
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = i + 1;
  lci::mr_t source = lci::register_memory_x(from.data(), sizeof(from)).runtime(runtime)();
  lci::mr_t target = lci::register_memory_x(to.data(), sizeof(to)).runtime(runtime)();
  const lci::gpu::endpoint_t ep = lci::alloc_gpu_endpoint_x(device)
                                      .gpu(lci::gpu::NO_GPU)
                                      .gpu_proxy(GetParam())
                                      .runtime(runtime)();
  const lci::gpu::key_t in = lci::get_gpu_key(source), out = lci::get_gpu_key(target);
  for (std::uint64_t i = 0; i < from.size(); ++i)
    EXPECT_EQ(lci::gpu::put(ep, lci::get_rank_me(), {out, 8 * i}, {in, 8 * i}, 8), status::ok);
  lci::free_device(&device);
  EXPECT_EQ(from, to);
  lci::deregister_memory(&source);
  lci::deregister_memory(&target);
  lci::free_runtime(&runtime);
}

INSTANTIATE_TEST_SUITE_P(by, gpu_ends,
                         testing::Values(attr_gpu_proxy_t::progress, attr_gpu_proxy_t::thread),
                         [](const auto& param) {
                           return param.param == attr_gpu_proxy_t::progress ? "progress" : "thread";
                         });

}  // namespace

int main(int argc, char** argv) {
  lci::global_initialize();
  const int rank = lci::get_rank_me();
  if (rank != 0) GTEST_FLAG_SET(brief, true);
  testing::InitGoogleTest(&argc, argv);
  const lci::test::watchdog watchdog("interface GPU ends, rank " + std::to_string(rank));
  const int failed = RUN_ALL_TESTS();
  lci::global_finalize();
  return failed;
}
