// Runs a function as a kernel on a GPU or, where there is none or no CUDA compiler, in threads of
// the processor. Your own program would write kernels as usual; what they call of lci is the same.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lci.hpp"
#include "lci/device.cuh"
#include "lci/gpu.hpp"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define ANYWHERE __host__ __device__
#else
#define ANYWHERE
#endif

// Which thread of a kernel this is. On a processor each block is one thread.
struct thread_t {
  int block, blocks, thread, threads;
};

#ifdef __CUDACC__
template <class Body>
__global__ void run_body(Body body) {
  body(thread_t{int(blockIdx.x), int(gridDim.x), int(threadIdx.x), int(blockDim.x)});
}
#endif

// Returns once all threads of the block have called it; each then sees what the others wrote.
ANYWHERE inline void sync_block() {
#ifdef __CUDA_ARCH__
  __syncthreads();
#endif
}

// What runs kernels: GPU number `rank`, modulo the number of GPUs, or the processor.
// Threads: single, the thread that made it.
class processor_t {
 public:
  explicit processor_t(int rank, bool only_threads = false) {
#ifdef __CUDACC__
    int count = 0;
    if (only_threads) {
      problem_ = "as asked";
    } else if (const cudaError_t e = cudaGetDeviceCount(&count); e != cudaSuccess || count == 0) {
      problem_ = e == cudaSuccess ? "no GPU" : cudaGetErrorString(e);
    } else {
      gpu_ = rank % count;
      must(cudaSetDevice(gpu_), "cudaSetDevice");
      must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    }
#else
    (void)rank;
    problem_ = only_threads ? "as asked" : "compiled without nvcc";
#endif
  }
  ~processor_t() {
#ifdef __CUDACC__
    if (is_gpu()) cudaStreamDestroy(stream_);
#endif
  }
  processor_t(const processor_t&) = delete;
  processor_t& operator=(const processor_t&) = delete;

  bool is_gpu() const { return gpu_ != lci::gpu::NO_GPU; }
  int gpu() const { return gpu_; }  // for alloc_gpu_endpoint_x
  std::string name() const {
    return is_gpu() ? "GPU " + std::to_string(gpu_) : "threads (" + problem_ + ")";
  }
  // Of a block; a block on a processor has one.
  int threads(int on_gpu) const { return is_gpu() ? on_gpu : 1; }

  // Memory for kernels, filled with zeros.
  template <class T>
  T* allocate(size_t count) {
    void* memory = nullptr;
#ifdef __CUDACC__
    if (is_gpu()) {
      must(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");
      must(cudaMemset(memory, 0, count * sizeof(T)), "cudaMemset");
      must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      return static_cast<T*>(memory);
    }
#endif
    memory = std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64);
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0, count * sizeof(T));
    return static_cast<T*>(memory);
  }
  void free(void* memory) {
#ifdef __CUDACC__
    if (is_gpu()) return must(cudaFree(memory), "cudaFree");
#endif
    std::free(memory);
  }
  template <class T>
  void write(T* to, const std::vector<T>& values) {
#ifdef __CUDACC__
    if (is_gpu())
      return must(cudaMemcpy(to, values.data(), values.size() * sizeof(T), cudaMemcpyDefault),
                  "cudaMemcpy");
#endif
    std::memcpy(to, values.data(), values.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> read(const T* from, size_t count) {
    std::vector<T> values(count);
#ifdef __CUDACC__
    if (is_gpu()) {
      must(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDefault), "cudaMemcpy");
      return values;
    }
#endif
    std::memcpy(values.data(), from, count * sizeof(T));
    return values;
  }

  // Calls body(thread_t) in every thread of a kernel, and makes progress until it has ended. An
  // exception of progress ends the kernel too, through the endpoint, and is rethrown. All blocks
  // run at once if they fit on the GPU.
  template <class Body>
  void run(int blocks, int threads, const Body& body, lci::gpu::endpoint_t endpoint) {
    std::exception_ptr problem;
    const auto progress = [&] {
      try {
        lci::progress();
      } catch (...) {
        problem = std::current_exception();
        lci::abort_gpu_endpoint(endpoint);
      }
    };
#ifdef __CUDACC__
    if (is_gpu()) {
      lci::check_gpu_endpoint(endpoint);  // a kernel on a wrong GPU would give a worse error
      run_body<<<blocks, threads, 0, stream_>>>(body);
      must(cudaGetLastError(), "the launch of the kernel");
      cudaError_t e;
      while ((e = cudaStreamQuery(stream_)) == cudaErrorNotReady) progress();
      must(e, "the kernel");
      if (problem != nullptr) std::rethrow_exception(problem);
      return;
    }
#endif
    (void)threads;
    std::atomic<int> running{blocks};
    std::vector<std::thread> all;
    for (int b = 0; b < blocks; ++b)
      all.emplace_back([&, b] {
        body(thread_t{b, blocks, 0, 1});
        --running;
      });
    while (running != 0) progress(), std::this_thread::yield();
    for (std::thread& one : all) one.join();
    if (problem != nullptr) std::rethrow_exception(problem);
  }

 private:
#ifdef __CUDACC__
  static void must(cudaError_t e, const char* what) {
    if (e != cudaSuccess)
      throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(e));
  }
  cudaStream_t stream_ = nullptr;
#endif
  std::string problem_;
  int gpu_ = lci::gpu::NO_GPU;
};

// Memory for kernels that peers may write: allocated, registered, and with the keys of all ranks.
template <class T>
class shared_t {
 public:
  // Collective.
  shared_t(processor_t& on, size_t count, lci::gpu::endpoint_t endpoint)
      : on_(on), at(on.template allocate<T>(count)) {
    mr_ = lci::register_memory(at, count * sizeof(T));
    const lci::rmr_t mine = lci::get_rmr(mr_);
    std::vector<lci::rmr_t> all;
    all.resize(size_t(lci::get_rank_n()));
    lci::allgather(&mine, all.data(), sizeof(mine));
    key = lci::get_gpu_key_x(mr_).endpoint(endpoint)();
    std::vector<lci::gpu::key_t> keys;
    for (size_t r = 0; r < all.size(); ++r)
      keys.push_back(lci::get_gpu_key_x(all[r]).rank(int(r)).endpoint(endpoint)());
    keys_of = on.template allocate<lci::gpu::key_t>(keys.size());
    on.write(keys_of, keys);
  }
  ~shared_t() {
    lci::deregister_memory(&mr_);
    on_.free(keys_of);
    on_.free(at);
  }
  shared_t(const shared_t&) = delete;
  shared_t& operator=(const shared_t&) = delete;

 private:
  processor_t& on_;
  lci::mr_t mr_;

 public:
  T* const at;
  lci::gpu::key_t key;       // of this rank's memory
  lci::gpu::key_t* keys_of;  // of each rank's, in memory of the kernels
};
