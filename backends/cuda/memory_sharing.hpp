// Buffers that processes share, on this driver: VMM allocations with posix file descriptors, and
// fabric handles where there are, CUDA IPC where it has no descriptors, and the mappings of others'
// memory, one import_cache per GPU. Callers: lci/share, through mem::memory_sharing. Threads:
// shared.
// Always true: a mapping ends with its last user, since a buffer that was freed must not keep its
// owner's memory. Primary contexts that were needed are retained until the object is destroyed.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/import_cache.hpp"
#include "backends/cuda/pointer_cache.hpp"
#include "lci/mem/memory_sharing.hpp"

namespace lci::cuda {

class memory_sharing final : public mem::memory_sharing {
 public:
  // Throws backend_error: what why_not() of the driver says.
  memory_sharing(driver& d, pointer_cache& pointers);

  int device_count() override { return driver_.gpu_count(); }
  int driver_version() override { return driver_.version(); }
  void* allocate(std::size_t size, int device, std::string& how) override;
  void release(void* memory) noexcept override;
  mem::exported_range export_range(const void* at, std::size_t size) override;
  std::string way_without_descriptor(std::span<const std::byte> ticket) const override;
  mem::mapped_memory map(mem::share_request what, int& device, std::string& why_not) override;
  void wait_for_device(int device) override;
  void flush_outside_writes(int device) override;
  std::unique_ptr<mem::copy_queue> open_copies(int device) override;

 private:
  struct block {
    gpu* on = nullptr;
    std::size_t mapped_size = 0;  // 0: cuMemAlloc
    bool has_fabric_handle = false;
  };
  static failure create_vmm(gpu& on, std::size_t size, block& made, abi::device_ptr& at) noexcept;
  static failure create_handle(gpu& on, std::size_t size, abi::handle_type as, block& made,
                               abi::allocation_handle& handle) noexcept;
  static void give_back(const block& was, abi::device_ptr at) noexcept;
  import_cache& cache_of(int device);
  int find_gpu(const std::string& pci);

  driver& driver_;
  pointer_cache& pointers_;
  gpu_list gpus_;
  std::mutex mutex_;                                   // guards all below
  std::map<abi::device_ptr, block> blocks_;            // what allocate() made
  std::vector<std::unique_ptr<import_cache>> caches_;  // by GPU; stay once made
};

}  // namespace lci::cuda
