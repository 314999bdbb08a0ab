// Allocations and what the driver tells about pointers.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "tests/support/mock_cuda/state.hpp"

namespace lci::mock {
namespace {

using cuda::abi::memory_type;
using cuda::abi::pointer_attribute;
using test::mock_memory;

bool is_host(const block& b) {
  return b.kind == mock_memory::pinned || b.kind == mock_memory::gpu_only_host;
}

bool is_mapped_vmm(const block& b) { return is_vmm(b.kind); }

// What the attribute's type is in cuda.h, so that a wrong one at the caller's shows.
template <class T>
void put(void* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

unsigned type_of(const block& b) {
  if (b.use == block_use::reservation) return 0;
  return static_cast<unsigned>(is_host(b) ? memory_type::host : memory_type::gpu);
}

// `b` is null for a pointer that is not ours: every answer is then the null value.
result answer(const state& s, const block* b, pointer_attribute what, void* to) {
  const bool mapped = b != nullptr && b->use != block_use::reservation;
  const bool is_device = mapped && b->kind == mock_memory::device;
  switch (what) {
    case pointer_attribute::owner_context: {
      const bool owned = mapped && !is_mapped_vmm(*b) && b->kind != mock_memory::pool;
      void* const owner = owned ? s.contexts[static_cast<std::size_t>(b->gpu)].get() : nullptr;
      put(to, owner);
      return result::success;
    }
    case pointer_attribute::memory_type:
      put(to, b == nullptr ? 0U : type_of(*b));
      break;
    case pointer_attribute::host_pointer: {
      const bool here =
          mapped && (b->kind == mock_memory::pinned || b->kind == mock_memory::managed);
      put(to, here ? b->base : device_ptr{0});
      break;
    }
    case pointer_attribute::buffer_id:
      put(to, b == nullptr ? 0ULL : static_cast<unsigned long long>(b->id));
      break;
    case pointer_attribute::is_managed:
      put(to, static_cast<unsigned>(mapped && b->kind == mock_memory::managed));
      break;
    case pointer_attribute::device_ordinal:
      put(to, mapped ? b->gpu : -1);
      break;
    case pointer_attribute::is_legacy_ipc_capable:
      put(to, static_cast<unsigned>(is_device && b->use == block_use::user));
      break;
    case pointer_attribute::range_start_addr:
      put(to, b == nullptr ? device_ptr{0} : is_mapped_vmm(*b) ? b->reserved : b->base);
      break;
    case pointer_attribute::range_size:
      put(to, b == nullptr ? std::size_t{0} : is_mapped_vmm(*b) ? b->reserved_size : b->size);
      break;
    case pointer_attribute::mapped:
      put(to, static_cast<unsigned>(mapped));
      break;
    case pointer_attribute::is_gpu_direct_rdma_capable:
      put(to, static_cast<unsigned>(is_device || (mapped && b->kind == mock_memory::vmm)));
      break;
    case pointer_attribute::allowed_handle_types:
      put(to, mapped && is_mapped_vmm(*b)
                  ? static_cast<unsigned>(handle_types_of(b->kind) | b->memory->handle_types)
                  : 0u);
      break;
    case pointer_attribute::mempool_handle: {
      const bool pooled = mapped && b->kind == mock_memory::pool;
      put(to, pooled ? reinterpret_cast<std::uintptr_t>(b) : std::uintptr_t{0});
      break;
    }
    default:
      return result::invalid_value;
  }
  return result::success;
}

result get_attributes(unsigned count, pointer_attribute* attributes, void** data, device_ptr at) {
  return guarded("cuPointerGetAttributes", needs::started, [&](state& s) {
    for (unsigned i = 0; i < count; ++i) {
      const result one = answer(s, s.find(at), attributes[i], data[i]);
      if (one != result::success) return one;
    }
    return result::success;
  });
}

result get_attribute(void* to, pointer_attribute what, device_ptr at) {
  return guarded("cuPointerGetAttribute", needs::started, [&](state& s) {
    const block* const b = s.find(at);
    if (b == nullptr) return result::invalid_value;
    if (what != pointer_attribute::memory_block_id) return answer(s, b, what, to);
    if (!s.config.knows_block_id) return result::invalid_value;
    put(to, b->memory ? b->memory->block_id : std::uint64_t{0});
    return result::success;
  });
}

result set_attribute(const void* value, pointer_attribute what, device_ptr at) {
  return guarded("cuPointerSetAttribute", needs::context, [&](state& s) {
    const block* const b = s.find(at);
    if (value == nullptr || what != pointer_attribute::sync_memops) return result::invalid_value;
    // As driver 580 answers.
    const bool can =
        b != nullptr && (b->kind == mock_memory::device || b->kind == mock_memory::pool);
    return can ? result::success : result::not_supported;
  });
}

result get_range(device_ptr* base, std::size_t* size, device_ptr at) {
  return guarded("cuMemGetAddressRange", needs::context, [&](state& s) {
    const block* const b = s.find(at);
    if (b == nullptr || type_of(*b) == 0) return result::not_found;
    *base = b->base;
    *size = b->size;
    return result::success;
  });
}

result host_alloc(void** out, std::size_t size, unsigned) {
  return guarded("cuMemHostAlloc", needs::context, [&](state& s) {
    if (const result forbidden = unsafe_in_capture(); forbidden != result::success)
      return forbidden;
    void* const at =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return result::out_of_memory;
    block b;
    b.base = reinterpret_cast<std::uintptr_t>(at);
    b.size = size;
    b.kind = mock_memory::pinned;
    b.use = block_use::lci_pinned;
    b.id = s.next_id++;
    b.gpu = current()->gpu;
    s.blocks[b.base] = b;
    *out = at;
    return result::success;
  });
}

result allocate(device_ptr* out, std::size_t size) {
  return guarded("cuMemAlloc", needs::context, [&](state&) {
    if (const result forbidden = unsafe_in_capture(); forbidden != result::success)
      return forbidden;
    if (size == 0) return result::invalid_value;
    *out = reinterpret_cast<std::uintptr_t>(
        control_of().allocate(mock_memory::device, size, current()->gpu));
    return result::success;
  });
}

result release(device_ptr memory) {
  return guarded("cuMemFree", needs::context, [&](state& s) {
    note_blocking("cuMemFree");
    const block* const b = s.find(memory);
    if (b == nullptr || b->base != memory || b->kind != mock_memory::device)
      return result::invalid_value;
    s.drop(memory);
    return result::success;
  });
}

result free_host(void* at) {
  return guarded("cuMemFreeHost", needs::nothing, [&](state& s) {
    note_blocking("cuMemFreeHost");
    const auto found = s.blocks.find(reinterpret_cast<std::uintptr_t>(at));
    if (found == s.blocks.end() || found->second.use != block_use::lci_pinned)
      return result::invalid_value;
    s.drop(found->first);
    return result::success;
  });
}

result host_register(void* at, std::size_t size, unsigned) {
  return guarded("cuMemHostRegister", needs::context, [&](state& s) {
    const auto base = reinterpret_cast<std::uintptr_t>(at);
    if (size == 0) return result::invalid_value;
    if (s.find(base) != nullptr || s.find(base + size - 1) != nullptr)
      return result::host_memory_already_registered;
    block b;
    b.base = base;
    b.size = size;
    b.kind = mock_memory::pinned;
    b.use = block_use::lci_registered;
    b.id = s.next_id++;
    b.gpu = current()->gpu;
    s.blocks[b.base] = b;
    return result::success;
  });
}

result host_unregister(void* at) {
  return guarded("cuMemHostUnregister", needs::nothing, [&](state& s) {
    note_blocking("cuMemHostUnregister");
    const auto found = s.blocks.find(reinterpret_cast<std::uintptr_t>(at));
    if (found == s.blocks.end() || found->second.use != block_use::lci_registered)
      return result::host_memory_not_registered;
    s.blocks.erase(found);
    return result::success;
  });
}

result host_device_pointer(device_ptr* out, void* at, unsigned) {
  return guarded("cuMemHostGetDevicePointer", needs::context, [&](state& s) {
    const block* const b = s.find(reinterpret_cast<std::uintptr_t>(at));
    if (b == nullptr || b->kind != mock_memory::pinned) return result::invalid_value;
    *out = reinterpret_cast<std::uintptr_t>(at);
    return result::success;
  });
}

}  // namespace

physical::~physical() {
  if (view != nullptr) munmap(view, size);
  if (fd >= 0) close(fd);
}

std::shared_ptr<physical> make_physical(std::size_t size, int fd) {
  auto made = std::make_shared<physical>();
  made->size = (size + PAGE - 1) / PAGE * PAGE;
  made->fd = fd >= 0 ? fd : memfd_create("mock-gpu", MFD_CLOEXEC);
  if (made->fd < 0) throw std::runtime_error("mock cuda: no memory file");
  if (fd < 0 && ftruncate(made->fd, static_cast<off_t>(made->size)) != 0)
    throw std::runtime_error("mock cuda: a memory file cannot grow");
  void* const view = mmap(nullptr, made->size, PROT_READ | PROT_WRITE, MAP_SHARED, made->fd, 0);
  if (view == MAP_FAILED) throw std::runtime_error("mock cuda: a memory file cannot be mapped");
  made->view = static_cast<std::byte*>(view);
  made->block_id = the().next_block_id++;
  return made;
}

block* state::find(device_ptr at, std::size_t size) {
  auto next = blocks.upper_bound(at);
  if (next == blocks.begin()) return nullptr;
  block& b = std::prev(next)->second;
  return at - b.base < b.size && size <= b.size - (at - b.base) ? &b : nullptr;
}

std::byte* state::resolve(device_ptr at, std::size_t size) {
  block* const b = find(at, size);
  if (b != nullptr && b->memory) {
    return b->accessible ? b->memory->view + b->offset + (at - b->base) : nullptr;
  }
  if (b != nullptr && b->kind == mock_memory::pinned) return reinterpret_cast<std::byte*>(at);
  // Part of one of ours, or an address that was one, is nobody's host memory.
  if (find(at) != nullptr || b != nullptr) return nullptr;
  for (const auto& [length, start] : free_ranges) {
    if (at >= start && at - start < length) return nullptr;
  }
  return reinterpret_cast<std::byte*>(at);
}

// An address range that the processor cannot touch. The last one given back comes first, as the
// real driver does it.
device_ptr state::take_range(std::size_t size) {
  size = (size + PAGE - 1) / PAGE * PAGE;
  const auto same_size = free_ranges.equal_range(size);
  if (same_size.first != same_size.second) {
    const auto again = std::prev(same_size.second);
    const device_ptr at = again->second;
    free_ranges.erase(again);
    return at;
  }
  // The upper end of what was freed last, if that is larger: memory comes back at another address
  // that overlaps the old one.
  for (auto larger = free_ranges.upper_bound(size); larger != free_ranges.end(); ++larger) {
    const auto [length, start] = *larger;
    if (start != last_freed) continue;
    free_ranges.erase(larger);
    free_ranges.emplace(length - size, start);
    return start + length - size;
  }
  void* const at =
      mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::runtime_error("mock cuda: no address range");
  return reinterpret_cast<std::uintptr_t>(at);
}

void state::drop(device_ptr base) {
  const block b = blocks.at(base);
  blocks.erase(base);
  if (b.use == block_use::lci_pinned) munmap(reinterpret_cast<void*>(b.base), b.size);
  if (b.reserved == 0) return;
  mprotect(reinterpret_cast<void*>(b.reserved), b.reserved_size, PROT_NONE);
  free_ranges.emplace(b.reserved_size, b.reserved);
  last_freed = b.reserved;
}

void fill_memory(functions& table) {
  table.pointer_get_attributes = &get_attributes;
  table.pointer_get_attribute = &get_attribute;
  table.pointer_set_attribute = &set_attribute;
  table.mem_get_address_range = &get_range;
  table.mem_alloc = &allocate;
  table.mem_free = &release;
  table.mem_host_alloc = &host_alloc;
  table.mem_free_host = &free_host;
  table.mem_host_register = &host_register;
  table.mem_host_unregister = &host_unregister;
  table.mem_host_get_device_pointer = &host_device_pointer;
}

}  // namespace lci::mock
