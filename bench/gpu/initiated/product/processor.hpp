// Where the bodies of this benchmark run: as kernels on GPU 0, or, to try the program where there
// is none, in threads of the process. Threads: single, but what kernels call. Always true: a look
// at a word that never changes ends after PATIENCE_NS.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lci.hpp"
#include "lci/device.cuh"
#include "lci/gpu.hpp"

#define BENCH_ANYWHERE __host__ __device__

namespace bench {

// Which thread of a kernel this is. In threads each block is one.
struct caller {
  unsigned block, blocks, thread, threads;
  BENCH_ANYWHERE unsigned number() const { return block * threads + thread; }
  BENCH_ANYWHERE bool is_first() const { return number() == 0; }
};

constexpr std::uint64_t PATIENCE_NS = 5'000'000'000;

inline std::uint64_t host_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}
// The clock of who calls.
BENCH_ANYWHERE inline std::uint64_t now_ns() {
#ifdef __CUDA_ARCH__
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  return host_ns();
#endif
}

// Words in pinned memory between the host and kernels of this benchmark; a kernel reads nothing
// that comes with them.
BENCH_ANYWHERE inline std::uint64_t look(const std::uint64_t* at) {
#ifdef __CUDA_ARCH__
  return *static_cast<const volatile std::uint64_t*>(at);
#else
  return __atomic_load_n(at, __ATOMIC_ACQUIRE);
#endif
}
BENCH_ANYWHERE inline void tell(std::uint64_t* at, std::uint64_t value) {
#ifdef __CUDA_ARCH__
  __threadfence_system();
  *static_cast<volatile std::uint64_t*>(at) = value;
#else
  __atomic_store_n(at, value, __ATOMIC_RELEASE);
#endif
}
// How a kernel's end says its status: 0 is a word that was not written yet.
BENCH_ANYWHERE constexpr std::int64_t said_of(lci::gpu::status s) {
  return static_cast<std::int64_t>(s) + (1 << 20);
}
BENCH_ANYWHERE inline void tell_status(std::uint64_t* at, lci::gpu::status s) {
  tell(at, static_cast<std::uint64_t>(said_of(s)));
}
inline lci::gpu::status status_in(const std::uint64_t* said) {
  const auto value = static_cast<std::int64_t>(look(said));
  return value == 0 ? lci::gpu::status::nothing
                    : static_cast<lci::gpu::status>(value - said_of(lci::gpu::status::ok));
}
// False: it did not come.
BENCH_ANYWHERE inline bool await(const std::uint64_t* at, std::uint64_t least) {
  const std::uint64_t begin = now_ns();
  while (look(at) < least)
    if (now_ns() - begin > PATIENCE_NS) return false;
  return true;
}

inline void must(cudaError_t answer, const char* call) {
  if (answer != cudaSuccess)
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(answer));
}
inline void must(lci::gpu::status answer, const char* call) {
  if (answer != lci::gpu::status::ok)
    throw std::runtime_error(std::string(call) + ": " + lci::gpu::text_of(answer));
}

template <class Body>
__global__ void run_body(Body body) {
  body(caller{blockIdx.x, gridDim.x, threadIdx.x, blockDim.x});
}

class processor {
 public:
  static constexpr int STREAMS = 2;

  explicit processor(bool in_threads) : in_threads_(in_threads) {
    if (in_threads_) return;
    must(cudaSetDevice(0), "cudaSetDevice");
    for (cudaStream_t& s : streams_)
      must(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  processor(const processor&) = delete;
  processor& operator=(const processor&) = delete;

  bool is_gpu() const { return !in_threads_; }
  int gpu() const { return in_threads_ ? lci::gpu::NO_GPU : 0; }  // for alloc_gpu_endpoint_x
  unsigned threads(unsigned on_gpu) const { return in_threads_ ? 1 : on_gpu; }

  // Filled with zeros.
  void* of_gpu(std::size_t size) {
    if (in_threads_) return plain(size);
    void* at = nullptr;
    must(cudaMalloc(&at, size), "cudaMalloc");
    clear(at, size);
    return at;
  }
  void* pinned(std::size_t size) {
    if (in_threads_) return plain(size);
    void* at = nullptr;
    must(cudaHostAlloc(&at, size, cudaHostAllocDefault), "cudaHostAlloc");
    return std::memset(at, 0, size);
  }
  void free_of_gpu(void* at) { in_threads_ ? std::free(at) : static_cast<void>(cudaFree(at)); }
  void free_pinned(void* at) { in_threads_ ? std::free(at) : static_cast<void>(cudaFreeHost(at)); }
  void clear(void* of_gpu, std::size_t size) {
    if (in_threads_) return static_cast<void>(std::memset(of_gpu, 0, size));
    // Of a stream of its own: the resident kernel may be running.
    must(cudaMemsetAsync(of_gpu, 0, size, streams_[0]), "cudaMemsetAsync");
    must(cudaStreamSynchronize(streams_[0]), "cudaStreamSynchronize");
  }
  template <class T>
  std::vector<T> read(const void* of_gpu, std::size_t count) {
    std::vector<T> values(count);
    if (in_threads_) {
      std::memcpy(values.data(), of_gpu, count * sizeof(T));
      return values;
    }
    must(cudaMemcpyAsync(values.data(), of_gpu, count * sizeof(T), cudaMemcpyDefault, streams_[0]),
         "cudaMemcpyAsync");
    must(cudaStreamSynchronize(streams_[0]), "cudaStreamSynchronize");
    return values;
  }

  template <class Body>
  void start(int stream, unsigned blocks, unsigned threads_on_gpu, const Body& body) {
    if (!in_threads_) {
      run_body<<<blocks, threads_on_gpu, 0, streams_[stream]>>>(body);
      return must(cudaGetLastError(), "the launch of a kernel");
    }
    running_[stream].store(static_cast<int>(blocks));
    for (unsigned b = 0; b < blocks; ++b)
      started_[stream].emplace_back([this, stream, b, blocks, body] {
        body(caller{b, blocks, 0, 1});
        running_[stream].fetch_sub(1);
      });
  }
  // Throws what ended a kernel.
  bool is_over(int stream) {
    if (!in_threads_) {
      const cudaError_t answer = cudaStreamQuery(streams_[stream]);
      if (answer == cudaErrorNotReady) return false;
      must(answer, "a kernel");
      return true;
    }
    if (running_[stream].load() != 0) return false;
    for (std::thread& one : started_[stream]) one.join();
    started_[stream].clear();
    return true;
  }

 private:
  static void* plain(std::size_t size) {
    void* const at = std::aligned_alloc(64, (size + 63) / 64 * 64);
    if (at == nullptr) throw std::bad_alloc();
    return std::memset(at, 0, size);
  }

  bool in_threads_;
  cudaStream_t streams_[STREAMS] = {};
  std::atomic<int> running_[STREAMS] = {};
  std::vector<std::thread> started_[STREAMS];
};

}  // namespace bench
