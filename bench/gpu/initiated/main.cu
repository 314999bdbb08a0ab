// bench_gpu_initiated [--quick]: calls of kernels on one GPU, between two ranks of one process.
// Over memory that kernels reach, beside the copy engine in the same run; and over requests, with a
// card in software that a thread of the host drives over pinned memory. Prints lines of JSON; run
// beside this file compiles it, collects them and prints a table. Exit status 77 without a GPU.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "lci/device/memory_world.hpp"
#include "tests/support/device_code/gpu_calls.hpp"
#include "tests/support/device_code/gpu_endpoints.hpp"

namespace bench {
namespace {

using lci::gpu::place_t;
using lci::gpu::status;
using lci::test::gpu_endpoints;
using lci::test::turns_task;

void must(cudaError_t answer, const char* call) {
  if (answer != cudaSuccess)
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(answer));
}
void must(status answer, const char* call) {
  if (answer != status::ok)
    throw std::runtime_error(std::string(call) + ": " + lci::gpu::text_of(answer));
}

class cuda_memory final : public lci::test::gpu_memory {
 public:
  explicit cuda_memory(int gpus) : gpus_(gpus) {}
  void select(int rank) override { must(cudaSetDevice(rank % gpus_), "cudaSetDevice"); }
  void* of_gpu(std::size_t size) override {
    void* at = nullptr;
    must(cudaMalloc(&at, size), "cudaMalloc");
    must(cudaMemset(at, 0, size), "cudaMemset");
    return at;
  }
  void* pinned(std::size_t size) override {
    void* at = nullptr;
    must(cudaHostAlloc(&at, size, cudaHostAllocDefault), "cudaHostAlloc");
    return std::memset(at, 0, size);
  }
  void write(void* gpu, const void* from, std::size_t size) override {
    must(cudaMemcpy(gpu, from, size, cudaMemcpyHostToDevice), "cudaMemcpy");
  }

 private:
  int gpus_;
};

// Takes puts and does nothing: the rate of the queue itself.
class counting_world final : public lci::device::world {
 public:
  using answer = lci::device::answer;
  std::uint64_t count = 0;
  answer put(lci::wqe::opcode, const lci::device::local_data&, lci::device::remote_place,
             std::uint32_t, bool) noexcept override {
    ++count;
    return {};
  }
  answer get(lci::device::remote_place, const lci::device::local_data&) noexcept override {
    return {};
  }
  answer send(lci::wqe::opcode, const lci::device::local_data&, std::uint32_t,
              bool) noexcept override {
    return {};
  }
  answer atomic(lci::wqe::opcode, const lci::wqe::atomic_operands&, lci::device::remote_place,
                std::byte*) noexcept override {
    return {};
  }
};

__global__ void turns_of_thread(turns_task t) { lci::test::run_turns<lci::gpu::thread>(t); }
__global__ void turns_of_warp(turns_task t) { lci::test::run_turns<lci::gpu::warp>(t); }
__global__ void __launch_bounds__(1024) turns_of_block(turns_task t) {
  lci::test::run_turns<lci::gpu::block>(t);
}

struct share_task {
  lci::gpu::endpoint_t endpoint;
  place_t to, from;
  std::uint64_t each = 0;  // bytes of a block
  std::uint32_t rounds = 0;
  status* answer = nullptr;
};
__global__ void __launch_bounds__(1024) put_shares(share_task t) {
  t.to.offset += blockIdx.x * t.each;
  t.from.offset += blockIdx.x * t.each;
  for (std::uint32_t i = 0; i < t.rounds; ++i) {
    const status s = lci::gpu::put<lci::gpu::block>(t.endpoint, 1, t.to, t.from, t.each);
    if (s != status::ok && threadIdx.x == 0) *t.answer = s;
  }
}

struct rate_task {
  lci::gpu::endpoint_t endpoint;
  place_t to;
  std::uint32_t each = 0;
  status* answer = nullptr;
};
__global__ void put_values(rate_task t) {
  for (std::uint64_t i = 0; i < t.each; ++i) {
    const status s = lci::gpu::put_value(t.endpoint, 1, t.to, i);
    if (s != status::ok) *t.answer = s;
  }
  if (const status s = lci::gpu::quiet(t.endpoint, 1); s != status::ok) *t.answer = s;
}

class program {
 public:
  program(bool quick, int gpus) : quick_(quick), gpus_(gpus), memory_(gpus) {
    for (int i = 1; i >= 0; --i) {
      memory_.select(i);
      must(cudaStreamCreateWithFlags(&streams_[i], cudaStreamNonBlocking),
           "cudaStreamCreateWithFlags");
      if (gpus > 1) must(cudaDeviceEnablePeerAccess(1 - i, 0), "cudaDeviceEnablePeerAccess");
    }
    for (cudaEvent_t& e : events_) must(cudaEventCreate(&e), "cudaEventCreate");
    answers_ = static_cast<status*>(memory_.pinned(2 * sizeof(status)));
    times_ = static_cast<std::uint64_t*>(memory_.pinned(2 * sizeof(std::uint64_t)));
    ends_ = std::make_unique<gpu_endpoints>(
        memory_, lci::test::gpu_endpoint_options{}, [](int, int, lci::device::key_table& keys) {
          return std::make_unique<lci::device::memory_world>(keys, nullptr, 1);
        });
    for (int i = 1; i >= 0; --i) {
      memory_.select(i);
      in_gpu_[i] = static_cast<unsigned char*>(memory_.of_gpu(SIZE + 4096));
      pinned_[i] = static_cast<unsigned char*>(memory_.pinned(1 << 20));
      pinned_key_[i] = ends_->register_pinned(i, pinned_[i], 1 << 20);
    }
  }

  int failures() const { return failures_; }
  void direct() {
    tell("peer: signal, one way", "us", [&] { return one_way(true, 0, 1); });
    tell("peer: 8 B put + signal, one way", "us", [&] { return one_way(true, 8, 1); });
    tell("peer: 8 B put + signal by a warp, one way", "us", [&] { return one_way(true, 8, 32); });
    tell("peer: 64 KiB put + signal by a block, one way", "us",
         [&] { return one_way(true, 65536, 512); });
    tell("peer: puts of 64 KiB by a block, each", "us", [&] {
      constexpr std::uint32_t EACH = 200;
      return 1e3 * shares_ms(1, 65536, EACH) / EACH;
    });
  }
  void bandwidth() {
    tell(
        "copy engine bandwidth", "GB/s", [&] { return gbps(copy_ms() / copies()); }, "cudaMemcpy");
    for (const unsigned blocks : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u}) {
      tell("peer: bandwidth, " + std::to_string(blocks) + " blocks", "GB/s",
           [&] { return gbps(shares_ms(blocks, SIZE / blocks, copies()) / copies()); });
    }
  }
  void requests() {
    tell("requests: signal, one way", "us", [&] { return one_way(false, 0, 1); });
    tell("requests: 8 B put + signal, one way", "us", [&] { return one_way(false, 8, 1); });
    for (const unsigned blocks : {1u, 2u, 4u, 8u, 16u, 32u, 64u}) {
      tell("requests: 8 B puts, " + std::to_string(blocks) + " blocks", "M/s",
           [&] { return rate(blocks); });
    }
  }

 private:
  static constexpr std::uint64_t SIZE = 256ull << 20;

  // One that fails does not end the others.
  template <class Measure>
  void tell(const std::string& what, const char* unit, Measure measure, const char* who = "lci") {
    double value = 0;
    try {
      value = measure();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "bench_gpu_initiated: %s: %s\n", what.c_str(), e.what());
      cudaGetLastError();
      ++failures_;
      return;
    }
    std::printf("{\"who\": \"%s\", \"what\": \"%s\", \"unit\": \"%s\", \"value\": %.4g}\n", who,
                what.c_str(), unit, value);
    std::fflush(stdout);
  }
  place_t place(int rank, bool is_direct, bool is_own) const {
    if (!is_direct) {
      place_t at{pinned_key_[rank], 0};
      if (is_own) at.key.mapped = at.key.base;
      return at;
    }
    const auto address = reinterpret_cast<std::uintptr_t>(in_gpu_[rank]);
    place_t at{{address, SIZE + 4096, address, 0, rank}, 0};
    at.key.is_near = gpus_ == 1;
    return at;
  }
  bool is_running() {
    return cudaStreamQuery(streams_[0]) == cudaErrorNotReady ||
           cudaStreamQuery(streams_[1]) == cudaErrorNotReady;
  }
  void drive() {
    while (is_running())
      for (int i = 0; i < 1000; ++i) ends_->progress();
    for (const cudaStream_t s : streams_) must(cudaStreamSynchronize(s), "cudaStreamSynchronize");
  }

  // Two kernels, the median of several runs.
  double one_way(bool is_direct, std::uint64_t size, unsigned threads) {
    std::vector<double> found;
    for (int block = 0; block < (quick_ ? 1 : 5); ++block) {
      turns_task t;
      t.signal_offset = is_direct ? SIZE : 65536;
      t.target = 0;
      t.size = size;
      t.rounds = quick_ ? 200 : size > 4096 ? 1000 : 5000;
      t.answers = answers_;
      t.times = times_;
      for (int i = 0; i < 2; ++i) {
        unsigned char* const base = is_direct ? in_gpu_[i] : pinned_[i];
        t.endpoints[i] = ends_->endpoint(i);
        t.memory[i] = place(i, is_direct, false).key;
        t.own[i] = place(i, is_direct, true).key;
        t.words[i] = reinterpret_cast<std::uint64_t*>(base + t.signal_offset);
        memory_.select(i);
        must(cudaMemset(t.words[i], 0, 8), "cudaMemset");
        must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        answers_[i] = status::no_gpu;
      }
      for (unsigned i = 0; i < 2; ++i) {
        memory_.select(static_cast<int>(i));
        t.first = i;
        auto* const kernel = threads == 1    ? turns_of_thread
                             : threads == 32 ? turns_of_warp
                                             : turns_of_block;
        kernel<<<1, threads, 0, streams_[i]>>>(t);
        must(cudaGetLastError(), "turns");
      }
      drive();
      memory_.select(0);
      for (int i = 0; i < 2; ++i) must(answers_[i], "turns");
      found.push_back(static_cast<double>(times_[0]) / t.rounds / 2e3);
    }
    std::sort(found.begin(), found.end());
    return found[found.size() / 2];
  }
  float between_events() {
    must(cudaEventSynchronize(events_[1]), "cudaEventSynchronize");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, events_[0], events_[1]), "cudaEventElapsedTime");
    return ms;
  }
  std::uint32_t copies() const { return quick_ ? 2 : 10; }
  static double gbps(float ms) { return static_cast<double>(SIZE) / ms / 1e6; }
  float copy_ms() {
    for (int pass = 0; pass < 2; ++pass) {
      must(cudaEventRecord(events_[0], streams_[0]), "cudaEventRecord");
      for (std::uint32_t i = 0; i < copies(); ++i)
        must(cudaMemcpyAsync(in_gpu_[1], in_gpu_[0], SIZE, cudaMemcpyDeviceToDevice, streams_[0]),
             "cudaMemcpyAsync");
      must(cudaEventRecord(events_[1], streams_[0]), "cudaEventRecord");
    }
    return between_events();
  }
  // By as many threads a block as the program of NVSHMEM beside this has.
  float shares_ms(unsigned blocks, std::uint64_t each, std::uint32_t rounds) {
    share_task t{
        ends_->endpoint(0), place(1, true, false), place(0, true, true), each, rounds, answers_};
    answers_[0] = status::ok;
    for (int pass = 0; pass < 2; ++pass) {
      must(cudaEventRecord(events_[0], streams_[0]), "cudaEventRecord");
      put_shares<<<blocks, 512, 0, streams_[0]>>>(t);
      must(cudaGetLastError(), "put_shares");
      must(cudaEventRecord(events_[1], streams_[0]), "cudaEventRecord");
    }
    const float ms = between_events();
    must(answers_[0], "put");
    return ms;
  }
  // Millions a second, the last quiet included. A driver that only counts.
  double rate(unsigned blocks) {
    counting_world* world = nullptr;
    memory_.select(0);
    gpu_endpoints ends(memory_, {}, [&](int from, int to, lci::device::key_table&) {
      auto made = std::make_unique<counting_world>();
      if (from == 0 && to == 1) world = made.get();
      return made;
    });
    memory_.select(0);
    const std::uint32_t each = quick_ ? 100 : 400000 / (blocks * 128) + 50;
    const rate_task t{
        ends.endpoint(0), {{0, lci::gpu::UNKNOWN_LENGTH, 0, 0x100, 1}, 0}, each, answers_};
    answers_[0] = status::ok;
    float ms = 0;
    for (int pass = 0; pass < 2; ++pass) {
      must(cudaEventRecord(events_[0], streams_[0]), "cudaEventRecord");
      put_values<<<blocks, 128, 0, streams_[0]>>>(t);
      must(cudaGetLastError(), "put_values");
      must(cudaEventRecord(events_[1], streams_[0]), "cudaEventRecord");
      while (cudaStreamQuery(streams_[0]) == cudaErrorNotReady)
        for (int i = 0; i < 1000; ++i) ends.progress(0, 1);
      must(cudaEventElapsedTime(&ms, events_[0], events_[1]), "cudaEventElapsedTime");
    }
    must(answers_[0], "put_value");
    if (world->count != 2ull * blocks * 128 * each)
      throw std::runtime_error("messages are missing");
    return static_cast<double>(blocks) * 128 * each / ms / 1e3;
  }

  bool quick_;
  int gpus_;
  int failures_ = 0;
  cuda_memory memory_;
  cudaStream_t streams_[2] = {};
  cudaEvent_t events_[2] = {};
  status* answers_ = nullptr;
  std::uint64_t* times_ = nullptr;
  std::unique_ptr<gpu_endpoints> ends_;
  unsigned char* in_gpu_[2] = {};
  unsigned char* pinned_[2] = {};
  lci::gpu::key_t pinned_key_[2];
};

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bool quick = false, one_gpu = false;
  for (int i = 1; i < argc; ++i) {
    quick |= std::string(argv[i]) == "--quick";
    one_gpu |= std::string(argv[i]) == "--one-gpu";
  }
  int gpus = 0, reaches = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::fprintf(stderr, "no GPU\n");
    return 77;
  }
  if (gpus > 1) bench::must(cudaDeviceCanAccessPeer(&reaches, 0, 1), "cudaDeviceCanAccessPeer");
  cudaDeviceProp properties;
  bench::must(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  const int used = reaches != 0 && !one_gpu ? 2 : 1;
  std::printf("{\"gpu\": \"%s\", \"gpus\": %d}\n", properties.name, used);
  // Not destroyed: its memory is the process's.
  auto* const run = new bench::program(quick, used);
  run->direct();
  run->bandwidth();
  run->requests();
  return run->failures() == 0 ? 0 : 1;
}
