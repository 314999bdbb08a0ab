#include "backends/cuda/memory_sharing.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cuda/copy_stream.hpp"
#include "backends/cuda/share.hpp"
#include "backends/cuda/vmm_mapping.hpp"
#include "lci/base/undo.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {
namespace {

// What a buffer of another process's memory holds.
struct held_import {
  import_cache* cache = nullptr;
  int owner = 0;
  std::uint64_t base = 0;
  void* use = nullptr;

  static void release(void* held) noexcept {
    const std::unique_ptr<held_import> own(static_cast<held_import*>(held));
    imported::release(own->use);
    own->cache->drop_unused(own->owner, own->base);
  }
};

std::string text_of(share_way way, bool has_descriptor) {
  if (way == share_way::legacy_ipc) return "CUDA IPC";
  if (way == share_way::vmm_descriptor) return "a descriptor of VMM memory";
  return has_descriptor ? "a descriptor of VMM memory, or its fabric handle"
                        : "a fabric handle of VMM memory";
}

std::string bytes_on(std::size_t size, int device) {
  return std::to_string(size) + " bytes on GPU " + std::to_string(device);
}

}  // namespace

memory_sharing::memory_sharing(driver& d, pointer_cache& pointers)
    : driver_(d), pointers_(pointers), gpus_(d) {
  d.require();
}

failure memory_sharing::create_handle(gpu& on, std::size_t size, abi::handle_type as, block& made,
                                      abi::allocation_handle& handle) noexcept {
  const abi::functions& call = on.call();
  const gpu_facts& facts = on.facts();
  abi::allocation_prop prop;
  std::size_t unit = 0;
  const failure error = describe_shareable(call, facts.ordinal, as, prop, unit);
  if (error) return error;
  if (unit == 0 || size > ~std::size_t{0} - unit)
    return {abi::result::out_of_memory, "cuMemCreate"};
  prop.flags.gpu_direct_rdma_capable = facts.direct_rdma ? 1 : 0;
  made.mapped_size = (size + unit - 1) / unit * unit;
  return {call.mem_create(&handle, made.mapped_size, &prop, 0), "cuMemCreate"};
}

failure memory_sharing::create_vmm(gpu& on, std::size_t size, block& made,
                                   abi::device_ptr& at) noexcept {
  const abi::functions& call = on.call();
  const gpu_facts& facts = on.facts();
  if (!facts.vmm_descriptors || call.mem_create == nullptr)
    return {abi::result::not_supported, "cuMemCreate"};
  constexpr auto AS_DESCRIPTOR = abi::handle_type::posix_file_descriptor;
  abi::allocation_handle handle = 0;
  failure error{abi::result::not_supported, "cuMemCreate"};
  // The GPU can, but the driver asks for more: that IMEX lets this process in.
  if (facts.fabric_handles)
    error = create_handle(on, size, AS_DESCRIPTOR | abi::handle_type::fabric, made, handle);
  made.has_fabric_handle = !error;
  if (error) error = create_handle(on, size, AS_DESCRIPTOR, made, handle);
  if (error) return error;
  error = map_handle(call, handle, facts.ordinal, made.mapped_size, vmm_access::every_gpu, at);
  // The mapping keeps the memory, and gives a handle of it when one is exported.
  log_teardown(call, call.mem_release(handle), "cuMemRelease");
  return error;
}

void* memory_sharing::allocate(std::size_t size, int device, std::string& how) {
  gpu& on = gpus_.at(device);
  const abi::functions& call = on.call();
  const std::string what = bytes_on(size, device);
  const context_scope scope(call, on.context());
  check(call, scope.entered(), "cuCtxPushCurrent", what);
  block made{&on};
  abi::device_ptr at = 0;
  const failure error = create_vmm(on, size, made, at);
  if (error.code == abi::result::out_of_memory) check(call, error.code, error.call, what);
  if (error) {
    made.mapped_size = 0;
    check(call, call.mem_alloc(&at, size), "cuMemAlloc", what);
  }
  base::undo allocated([&]() noexcept { give_back(made, at); });
  how = "memory of GPU " + std::to_string(device) +
        (error ? ", cuMemAlloc with CUDA IPC (" + text_of(call, error, "VMM") + ")"
         : made.has_fabric_handle ? ", VMM with a posix file descriptor and a fabric handle"
                                  : ", VMM with a posix file descriptor");
  const std::lock_guard lock(mutex_);
  blocks_[at] = made;
  allocated.keep();
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(at));
}

void memory_sharing::release(void* memory) noexcept {
  const abi::device_ptr at = as_device(memory);
  block was;
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(at);
    if (found == blocks_.end()) return;
    was = found->second;
    blocks_.erase(found);
  }
  give_back(was, at);
}

void memory_sharing::give_back(const block& was, abi::device_ptr at) noexcept {
  const abi::functions& call = was.on->call();
  const context_scope scope(call, was.on->context());
  if (scope.entered() != abi::result::success) return;  // lost, and cuMemAlloc's memory with it
  if (was.mapped_size != 0)
    unmap_handle(call, at, was.mapped_size);
  else
    log_teardown(call, call.mem_free(at), "cuMemFree");
}

mem::exported_range memory_sharing::export_range(const void* at, std::size_t size) {
  mem::exported_range out;
  const classified found = pointers_.find(at);
  if (found.error) {
    out.why_not = text_of(driver_.call(), found.error, "the pointer");
    return out;
  }
  exported made = cuda::export_range(gpus_, found.what, as_device(at), size);
  out.why_not = std::move(made.why_not);
  if (!out.why_not.empty()) return out;
  add_fabric_handle(gpus_, found.what, made);
  const auto bytes = made.ticket.encode();
  static_assert(share_ticket::BYTES == mem::SHARE_TICKET_BYTES);
  out.ticket.assign(bytes.begin(), bytes.end());
  out.fd = std::move(made.fd);
  out.memory_size = found.what.size;
  out.offset = as_device(at) - found.what.base;
  out.pci = gpus_.at(found.what.ordinal).facts().pci;
  out.how = text_of(made.ticket.way, static_cast<bool>(out.fd));
  return out;
}

import_cache& memory_sharing::cache_of(int device) {
  gpu& on = gpus_.at(device);
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(device);
  if (caches_.size() <= index) caches_.resize(index + 1);
  // Nothing unused stays, so the limit is one of mappings in use, which import_cache lets grow.
  if (caches_[index] == nullptr)
    caches_[index] = std::make_unique<import_cache>(on, 1, 0, nullptr, vmm_access::every_gpu);
  return *caches_[index];
}

// -1: not seen by this process.
int memory_sharing::find_gpu(const std::string& pci) {
  for (int i = 0; i < driver_.gpu_count(); ++i)
    if (gpus_.at(i).facts().pci == pci) return i;
  return -1;
}

std::string memory_sharing::way_without_descriptor(std::span<const std::byte> ticket) const {
  const auto known = share_ticket::decode(ticket);
  if (!known || known->way == share_way::vmm_descriptor) return {};
  return known->way == share_way::legacy_ipc ? "CUDA IPC" : "its fabric handle";
}

mem::mapped_memory memory_sharing::map(mem::share_request what, int& device, std::string& why_not) {
  why_not.clear();
  const auto ticket = share_ticket::decode(what.ticket);
  const bool is_inside = ticket && ticket->size == what.memory_size &&
                         what.offset <= ticket->size && what.size <= ticket->size - what.offset;
  const bool has_fd = static_cast<bool>(what.fd);
  const bool is_way = ticket && (ticket->way == share_way::vmm_fabric ||
                                 has_fd == (ticket->way == share_way::vmm_descriptor));
  if (!is_inside || !is_way) {
    why_not = "the owner has published a GPU range that is not inside its memory";
    return {};
  }
  device = find_gpu(what.pci);
  if (device < 0) {
    why_not = "the owner's GPU " + what.pci + " is not visible in this process";
    return {};
  }
  import_cache& cache = cache_of(device);
  auto held = std::make_unique<held_import>(held_import{&cache, what.owner, ticket->base});
  imported use = cache.open(what.owner, *ticket, std::move(what.fd), why_not);
  if (!use) return {};
  const abi::device_ptr at = use.at(what.offset, what.size);
  if (at == 0) {
    why_not = "the owner's memory that is mapped here is smaller than its handle says";
    return {};
  }
  held->use = use.detach();
  return {reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(at)), held.release(),
          &held_import::release};
}

void memory_sharing::wait_for_device(int device) {
  gpu& on = gpus_.at(device);
  const abi::functions& call = on.call();
  const std::string what = "GPU " + std::to_string(device);
  if (call.ctx_synchronize == nullptr)
    throw backend_error(what + ": this driver cannot wait for all work of a process");
  const context_scope scope(call, on.context());
  check(call, scope.entered(), "cuCtxPushCurrent", what);
  check(call, call.ctx_synchronize(), "cuCtxSynchronize", what);
}

// A copy of an engine is visible once it has ended; writes of a card may need this. A driver that
// does not know it has nothing to flush.
void memory_sharing::flush_outside_writes(int device) {
  gpu& on = gpus_.at(device);
  const abi::functions& call = on.call();
  if (call.flush_gpu_direct_rdma_writes == nullptr || !on.facts().direct_rdma) return;
  const std::string what = "GPU " + std::to_string(device);
  const context_scope scope(call, on.context());
  check(call, scope.entered(), "cuCtxPushCurrent", what);
  const abi::result done = call.flush_gpu_direct_rdma_writes(abi::flush_target::current_context,
                                                             abi::flush_scope::to_owner);
  if (done != abi::result::not_supported) check(call, done, "cuFlushGPUDirectRDMAWrites", what);
}

std::unique_ptr<mem::copy_queue> memory_sharing::open_copies(int device) {
  return std::make_unique<copy_stream>(gpus_.at(device));
}

}  // namespace lci::cuda
