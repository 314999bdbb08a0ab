// Host memory of queues that kernels write and read: rings, records, completion queues, and
// registers of a card. Callers: lci_register_cuda_memory(); networks, by kernel_memory. Threads:
// shared. Always true: whole pages are registered, once, and counted; a range inside of one that is
// registered shares it, one that overlaps it only in part is refused; what the program has
// registered itself is used and never unregistered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backends/cuda/gpu.hpp"
#include "lci/mem/kernel_memory.hpp"

namespace lci::cuda {

class queue_memory {
 public:
  enum class kind { memory, card_register };

  // Where kernels find it. Throws backend_error with the call's name and the driver's reason; then
  // nothing has changed. The GPU's context is made current for the call.
  void* add(gpu& g, void* host, std::size_t size, kind what);
  // The last of as many calls as add() unregisters. False: there is no such range.
  bool remove(gpu& g, void* host, std::size_t size);

 private:
  struct range {
    std::uintptr_t end;
    std::uintptr_t at_gpu;
    unsigned uses;
    bool is_ours;
  };
  using ranges = std::map<std::uintptr_t, range>;
  ranges::iterator around_locked(std::uintptr_t begin, std::uintptr_t end);

  std::mutex mutex_;  // guards ranges_, and that one thread registers
  ranges ranges_;     // by the first byte
};

// What this process has registered, for all callers: a page is registered once. Never destroyed:
// kernels may still use it.
queue_memory& registered_queues();

// The same for a network. `d` outlives it.
std::unique_ptr<mem::kernel_memory> open_for_kernels(driver& d);

}  // namespace lci::cuda
