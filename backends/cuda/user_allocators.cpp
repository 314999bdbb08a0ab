#include "backends/cuda/user_allocators.hpp"

#include <string>

#include "backends/cuda/errors.hpp"
#include "lci/base/undo.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {

std::shared_ptr<gpu> user_allocators::use(int device) {
  const std::lock_guard lock(mutex_);
  driver_.require();
  gpus_.resize(static_cast<std::size_t>(driver_.gpu_count()));
  const auto index = static_cast<std::size_t>(device);
  if (index < gpus_.size()) {
    if (std::shared_ptr<gpu> known = gpus_[index].lock(); known != nullptr) return known;
  }
  auto made = std::make_shared<gpu>(driver_, device);  // throws for an ordinal out of range
  gpus_[index] = made;
  return made;
}

void* user_allocators::allocate(std::size_t size, int device, bool pinned) {
  const std::shared_ptr<gpu> on = use(device);
  const std::size_t bytes = size != 0 ? size : 1;
  const std::string what = std::to_string(bytes) + " bytes " +
                           (pinned ? "of pinned memory" : "on GPU " + std::to_string(device));
  const context_scope scope(on->call(), on->context());
  check(on->call(), scope.entered(), "cuCtxPushCurrent", what);
  void* memory = nullptr;
  if (pinned) {
    // Portable: every GPU of the process may use it.
    check(on->call(), on->call().mem_host_alloc(&memory, bytes, abi::HOST_ALLOC_PORTABLE),
          "cuMemHostAlloc", what);
  } else {
    abi::device_ptr at = 0;
    check(on->call(), on->call().mem_alloc(&at, bytes), "cuMemAlloc", what);
    memory = reinterpret_cast<void*>(static_cast<std::uintptr_t>(at));
  }
  base::undo allocated([&]() noexcept { give_back({on, pinned}, memory); });
  const std::lock_guard lock(mutex_);
  blocks_[memory] = {on, pinned};
  allocated.keep();
  return memory;
}

void user_allocators::release(void* memory) {
  block was;
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(memory);
    if (found == blocks_.end())
      throw argument_error("deallocate: the pointer is not from this allocator, or was given back");
    was = found->second;
    blocks_.erase(found);
  }
  give_back(was, memory);
}

void user_allocators::give_back(const block& was, void* memory) noexcept {
  const context_scope scope(was.on->call(), was.on->context());
  if (scope.entered() != abi::result::success) return;  // lost, and the memory with it
  if (was.is_pinned)
    log_teardown(was.on->call(), was.on->call().mem_free_host(memory), "cuMemFreeHost");
  else
    log_teardown(was.on->call(), was.on->call().mem_free(reinterpret_cast<std::uintptr_t>(memory)),
                 "cuMemFree");
}

}  // namespace lci::cuda
