// Memory of an endpoint: what host and kernels share, and what only kernels change. Plain memory
// for threads of the process; else pinned host memory, and memory of the GPU, from the domain that
// knows it. Callers: endpoints and queues. Threads: single. Always true: shared memory starts as
// zeros; memory of a GPU is written by fill() before a kernel sees its address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lci/gpu_handles.hpp"
#include "lci/mem/memory_domain.hpp"

namespace lci::proto::gpu {
class devices;
}

namespace lci::proxy {

class block {
 public:
  block() = default;
  // Which everybody reaches. Throws backend_error or std::bad_alloc.
  static block shared(std::size_t size, int gpu);
  // Of the GPU; with NO_GPU the same as shared().
  static block of_gpu(std::size_t size, int gpu);
  block(block&& other) noexcept;
  block& operator=(block&& other) noexcept;
  ~block();
  // Keeps the memory for good.
  void forget() noexcept { at_ = nullptr; }

  std::byte* at(std::size_t offset = 0) const noexcept { return at_ + offset; }
  // Copies to that place of it, through the accelerator if it is memory of a GPU; waits for that.
  // Throws backend_error.
  void fill(proto::gpu::devices& gpus, const std::vector<std::byte>& image, std::size_t at = 0);

 private:
  std::byte* at_ = nullptr;
  const mem::memory_domain* domain_ = nullptr;  // null: plain
  int gpu_ = gpu::NO_GPU;                       // of GPU memory
};

// The domain of GPUs here. Throws backend_error with why there is none.
const mem::memory_domain& gpu_domain();

// Lays out parts of a block, each aligned to a cache line.
class layout {
 public:
  template <class T>
  std::size_t add(std::size_t count) {
    const std::size_t begin = size_;
    size_ = (size_ + count * sizeof(T) + 63) / 64 * 64;
    return begin;
  }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_ = 0;
};

}  // namespace lci::proxy
