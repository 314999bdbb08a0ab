// GPU memory and pinned host memory that programs ask for (device_allocator_t, pinned_allocator_t).
// Callers: domain. Threads: shared; allocate() and release() may wait for the GPU.
// Always true: the primary context of a GPU is retained while memory that was made through it
// exists, so that the memory outlives the runtime.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/gpu.hpp"

namespace lci::cuda {

class user_allocators {
 public:
  explicit user_allocators(driver& d) : driver_(d) {}

  // Throws backend_error.
  void* allocate(std::size_t size, int device, bool pinned);
  // Throws argument_error for what allocate() has not given, or that was released before.
  void release(void* memory);

 private:
  struct block {
    std::shared_ptr<gpu> on;
    bool is_pinned;
  };
  std::shared_ptr<gpu> use(int device);
  static void give_back(const block& was, void* memory) noexcept;

  driver& driver_;
  std::mutex mutex_;  // guards all below
  std::vector<std::weak_ptr<gpu>> gpus_;
  std::map<void*, block> blocks_;
};

}  // namespace lci::cuda
