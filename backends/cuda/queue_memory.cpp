#include "backends/cuda/queue_memory.hpp"

#include <unistd.h>

#include <cstdint>
#include <exception>

#include "backends/cuda/errors.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {
namespace {

struct pages {
  std::uintptr_t begin, end;
};

pages pages_of(void* host, std::size_t size) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<std::uintptr_t>(host);
  if (size == 0 || at == 0 || at > UINTPTR_MAX - page || size > UINTPTR_MAX - page - at)
    throw backend_error(
        "cuda: queue memory of 0 bytes, at a null address, or beyond the last address");
  return {at & -page, (at + size + page - 1) & -page};
}

std::string name_of(const pages& p, queue_memory::kind what) {
  return std::to_string(p.end - p.begin) + (what == queue_memory::kind::memory
                                                ? " bytes of host memory"
                                                : " bytes of a card's registers");
}

// A processor's user may not map a device for a GPU unless the driver is told so.
std::string hint(abi::result code, queue_memory::kind what) {
  if (what == queue_memory::kind::memory || code != abi::result::not_permitted) return "";
  return " (the driver's option PeerMappingOverride is not set)";
}

// What the driver calls registered may be a part of it that the program has registered.
void check_end(const abi::functions& call, const pages& p, abi::device_ptr at,
               const std::string& name) {
  const std::uintptr_t last = p.end - p.begin - 1;
  abi::device_ptr found = 0;
  check(call, call.mem_host_get_device_pointer(&found, reinterpret_cast<void*>(p.begin + last), 0),
        "cuMemHostGetDevicePointer", "the last of " + name);
  if (found != at + last)
    throw backend_error("cuda: queue memory that the program has registered in several pieces");
}

}  // namespace

// mutex_ is held. The range that holds these pages, or the end; throws where one holds a part.
queue_memory::ranges::iterator queue_memory::around_locked(std::uintptr_t begin,
                                                           std::uintptr_t end) {
  auto next = ranges_.upper_bound(begin);
  if (next != ranges_.begin()) {
    const auto before = std::prev(next);
    if (before->second.end >= end) return before;
    if (before->second.end > begin) next = before;
  }
  if (next != ranges_.end() && next->first < end)
    throw backend_error("cuda: queue memory overlaps a registered range in part");
  return ranges_.end();
}

void* queue_memory::add(gpu& g, void* host, std::size_t size, kind what) {
  const pages p = pages_of(host, size);
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(host) - p.begin;
  const std::lock_guard lock(mutex_);
  if (const auto found = around_locked(p.begin, p.end); found != ranges_.end()) {
    ++found->second.uses;
    return reinterpret_cast<void*>(found->second.at_gpu + (p.begin - found->first) + offset);
  }
  const abi::functions& call = g.call();
  const context_scope scope(call, g.context());
  check(call, scope.entered(), "cuCtxPushCurrent", "GPU " + std::to_string(g.facts().ordinal));
  const auto entry = ranges_.emplace(p.begin, range{p.end, 0, 1, true}).first;
  try {
    const unsigned flags = abi::HOST_REGISTER_PORTABLE | abi::HOST_REGISTER_DEVICE_MAP |
                           (what == kind::card_register ? abi::HOST_REGISTER_IO_MEMORY : 0);
    void* const first = reinterpret_cast<void*>(p.begin);
    const abi::result code = call.mem_host_register(first, p.end - p.begin, flags);
    entry->second.is_ours = code != abi::result::host_memory_already_registered;
    if (entry->second.is_ours)
      check(call, code, "cuMemHostRegister", name_of(p, what) + hint(code, what));
    abi::device_ptr at = 0;
    const abi::result found = call.mem_host_get_device_pointer(&at, first, 0);
    if (found != abi::result::success && entry->second.is_ours)
      log_teardown(call, call.mem_host_unregister(first), "cuMemHostUnregister");
    check(call, found, "cuMemHostGetDevicePointer", name_of(p, what));
    entry->second.at_gpu = static_cast<std::uintptr_t>(at);
    if (!entry->second.is_ours) check_end(call, p, at, name_of(p, what));
  } catch (...) {
    ranges_.erase(entry);
    throw;
  }
  return reinterpret_cast<void*>(entry->second.at_gpu + offset);
}

bool queue_memory::remove(gpu& g, void* host, std::size_t size) {
  const pages p = pages_of(host, size);
  const std::lock_guard lock(mutex_);
  const auto found = around_locked(p.begin, p.end);
  if (found == ranges_.end()) return false;
  if (--found->second.uses != 0) return true;
  if (found->second.is_ours) {
    const abi::functions& call = g.call();
    const context_scope scope(call, g.context());
    log_teardown(call, call.mem_host_unregister(reinterpret_cast<void*>(found->first)),
                 "cuMemHostUnregister");
  }
  ranges_.erase(found);
  return true;
}

queue_memory& registered_queues() {
  static queue_memory* const one = new queue_memory;
  return *one;
}

namespace {

class for_kernels final : public mem::kernel_memory {
 public:
  explicit for_kernels(driver& d) : gpus_(d), gpu_(chosen(d, gpus_)) {}
  void* map(void* host, std::size_t size, bool is_register) override {
    return registered_queues().add(
        gpu_, host, size,
        is_register ? queue_memory::kind::card_register : queue_memory::kind::memory);
  }
  void unmap(void* host, std::size_t size) noexcept override {
    try {
      registered_queues().remove(gpu_, host, size);
    } catch (const std::exception& error) {
      base::log::warn("cuda", "memory of a queue stays registered: %s", error.what());
    }
  }
  std::string why_no_dma_buf() override {
    return gpu_.facts().dma_buf
               ? ""
               : "GPU " + std::to_string(gpu_.facts().ordinal) + " or its driver has no dma-buf";
  }

 private:
  static gpu& chosen(driver& d, gpu_list& gpus) {
    d.require();
    abi::device current = 0;
    if (d.call().ctx_get_device(&current) != abi::result::success) current = 0;
    return gpus.at(current);
  }
  gpu_list gpus_;
  gpu& gpu_;
};

}  // namespace

std::unique_ptr<mem::kernel_memory> open_for_kernels(driver& d) {
  return std::make_unique<for_kernels>(d);
}

}  // namespace lci::cuda
