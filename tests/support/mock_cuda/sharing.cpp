// Handles between processes: legacy IPC, VMM descriptors and fabric handles, dma-buf. Real
// descriptors of the memory files, so that processes really share.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/support/mock_cuda/state.hpp"

namespace lci::mock {
namespace {

using cuda::abi::access_desc;
using cuda::abi::allocation_handle;
using cuda::abi::allocation_prop;
using cuda::abi::granularity;
using cuda::abi::handle_type;
using cuda::abi::ipc_mem_handle;
using cuda::abi::range_handle_type;
using test::mock_memory;

constexpr std::size_t GRANULARITY = std::size_t{2} << 20;
constexpr std::uint64_t MAGIC = 0x6d6f636b2d697063, FABRIC_MAGIC = 0x6d6f636b2d666162;

// What the 64 bytes hold.
struct ticket {
  std::uint64_t magic;
  int pid, fd, gpu, unused;
  std::uint64_t size, offset, id, base;
};
static_assert(sizeof(ticket) <= sizeof(ipc_mem_handle));

result ipc_get(ipc_mem_handle* handle, device_ptr at) {
  return guarded("cuIpcGetMemHandle", needs::context, [&](state& s) {
    const block* const b = s.find(at);
    if (b == nullptr || b->kind != mock_memory::device || b->use != block_use::user)
      return result::invalid_value;
    const ticket t{MAGIC, getpid(), b->memory->fd, b->gpu, 0, b->size, b->offset, b->id, b->base};
    std::memset(handle, 0, sizeof(*handle));
    std::memcpy(handle, &t, sizeof(t));
    return result::success;
  });
}

ticket ticket_of(const char* handle) {
  ticket t;
  std::memcpy(&t, handle, sizeof(t));
  return t;
}

// The memory file that it names; -1: the owner has freed it or is gone.
int open_at_owner(const ticket& t) {
  const std::string path = "/proc/" + std::to_string(t.pid) + "/fd/" + std::to_string(t.fd);
  return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

// Of one process, under different names, with some addresses in common.
bool overlap(const ticket& a, const ticket& b) {
  return a.pid == b.pid && a.base != b.base && a.base < b.base + b.size && b.base < a.base + a.size;
}

result ipc_open(device_ptr* out, ipc_mem_handle handle, unsigned flags) {
  return guarded("cuIpcOpenMemHandle", needs::context, [&](state& s) {
    if (flags != cuda::abi::IPC_LAZY_ENABLE_PEER_ACCESS) return result::invalid_value;
    const ticket t = ticket_of(handle.reserved);
    if (t.magic != MAGIC) return result::invalid_value;
    if (t.pid == getpid()) return result::invalid_context;
    const std::string key(handle.reserved, sizeof(handle));
    for (auto& [base, b] : s.blocks) {
      if (b.use != block_use::ipc_import || b.handle != key) continue;
      ++b.opens;
      *out = base;
      return result::success;
    }
    // As driver 580 answers: one of the two is freed memory, which is mapped here all the same.
    for (const auto& [base, b] : s.blocks) {
      if (b.use == block_use::ipc_import && overlap(ticket_of(b.handle.data()), t))
        return result::already_mapped;
    }
    const int fd = open_at_owner(t);
    if (fd < 0) return result::invalid_value;  // the owner has freed it or is gone
    block b;
    b.memory = make_physical(t.size + t.offset, fd);
    b.size = t.size;
    b.offset = t.offset;
    b.use = block_use::ipc_import;
    b.gpu = current()->gpu;
    b.id = s.next_id++;
    b.reserved_size = (t.size + PAGE - 1) / PAGE * PAGE;
    b.reserved = b.base = s.take_range(b.reserved_size);
    b.opens = 1;
    b.handle = key;
    s.blocks[b.base] = b;
    *out = b.base;
    return result::success;
  });
}

result ipc_close(device_ptr at) {
  return guarded("cuIpcCloseMemHandle", needs::context, [&](state& s) {
    note_blocking("cuIpcCloseMemHandle");
    const auto found = s.blocks.find(at);
    if (found == s.blocks.end() || found->second.use != block_use::ipc_import)
      return result::invalid_value;
    if (--found->second.opens == 0) s.drop(at);
    return result::success;
  });
}

allocation_handle hold(state& s, const std::shared_ptr<physical>& memory) {
  const allocation_handle handle = reinterpret_cast<std::uintptr_t>(memory.get());
  s.handles[handle] = memory;
  ++s.handle_references[handle];
  return handle;
}

result create(allocation_handle* out, std::size_t size, const allocation_prop* prop,
              unsigned long long) {
  return guarded("cuMemCreate", needs::started, [&](state& s) {
    const bool is_known = prop->type == cuda::abi::allocation_type::pinned &&
                          prop->where.type == cuda::abi::location_type::gpu &&
                          prop->where.id >= 0 && prop->where.id < s.config.gpus;
    if (!is_known || size == 0 || size % GRANULARITY != 0) return result::invalid_value;
    const handle_type types = prop->requested_handle_types;
    if (has(types, handle_type::posix_file_descriptor) && !s.config.vmm_descriptors)
      return result::not_supported;
    if (has(types, handle_type::fabric)) {
      if (!s.config.fabric_handles) return result::not_supported;
      if (!s.config.fabric_allowed) return result::not_permitted;
    }
    const auto memory = make_physical(size);
    memory->gpu = prop->where.id;
    memory->handle_types = types;
    *out = hold(s, memory);
    return result::success;
  });
}

result retain_handle(allocation_handle* out, void* at) {
  return guarded("cuMemRetainAllocationHandle", needs::started, [&](state& s) {
    const block* const b = s.find(reinterpret_cast<std::uintptr_t>(at));
    if (b == nullptr || !b->memory || !is_vmm(b->kind)) return result::invalid_value;
    *out = hold(s, b->memory);
    return result::success;
  });
}

result export_handle(void* out, allocation_handle handle, handle_type type, unsigned long long) {
  return guarded("cuMemExportToShareableHandle", needs::started, [&](state& s) {
    const auto found = s.handles.find(handle);
    if (found == s.handles.end() ||
        (type != handle_type::posix_file_descriptor && type != handle_type::fabric))
      return result::invalid_value;
    const physical& memory = *found->second;
    if (!has(memory.handle_types, type)) return result::not_permitted;
    if (type == handle_type::fabric) {
      const ticket t{FABRIC_MAGIC, getpid(), memory.fd, memory.gpu, 0, memory.size, 0, 0, 0};
      std::memset(out, 0, sizeof(ipc_mem_handle));
      std::memcpy(out, &t, sizeof(t));
      return result::success;
    }
    const int fd = fcntl(memory.fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return result::operating_system;
    std::memcpy(out, &fd, sizeof(fd));
    return result::success;
  });
}

// Without anything of its process, as far as that lives.
result import_fabric(state& s, allocation_handle* out, const void* os_handle) {
  const ticket t = ticket_of(static_cast<const char*>(os_handle));
  if (!s.config.fabric_handles || t.magic != FABRIC_MAGIC) return result::invalid_value;
  if (!s.config.fabric_allowed) return result::not_permitted;
  const int fd = open_at_owner(t);
  if (fd < 0) return result::invalid_value;  // the owner has freed it or is gone
  *out = hold(s, make_physical(t.size, fd));
  return result::success;
}

result import_handle(allocation_handle* out, void* os_handle, handle_type type) {
  return guarded("cuMemImportFromShareableHandle", needs::started, [&](state& s) {
    if (type == handle_type::fabric) return import_fabric(s, out, os_handle);
    if (type != handle_type::posix_file_descriptor) return result::invalid_value;
    const int given = static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle));
    struct stat about {};
    if (fstat(given, &about) != 0) return result::invalid_value;
    const int fd = fcntl(given, F_DUPFD_CLOEXEC, 0);  // the caller's stays the caller's
    if (fd < 0) return result::operating_system;
    *out = hold(s, make_physical(static_cast<std::size_t>(about.st_size), fd));
    return result::success;
  });
}

result release_allocation(allocation_handle handle) {
  return guarded("cuMemRelease", needs::started, [&](state& s) {
    const auto found = s.handle_references.find(handle);
    if (found == s.handle_references.end()) return result::invalid_value;
    if (--found->second == 0) {
      s.handle_references.erase(found);
      s.handles.erase(handle);
    }
    return result::success;
  });
}

result get_granularity(std::size_t* out, const allocation_prop* prop, granularity) {
  return guarded("cuMemGetAllocationGranularity", needs::started, [&](state&) {
    if (prop->where.type != cuda::abi::location_type::gpu) return result::invalid_value;
    *out = GRANULARITY;
    return result::success;
  });
}

result reserve(device_ptr* out, std::size_t size, std::size_t, device_ptr, unsigned long long) {
  return guarded("cuMemAddressReserve", needs::started, [&](state& s) {
    if (size == 0 || size % GRANULARITY != 0) return result::invalid_value;
    block b;
    b.reserved = b.base = s.take_range(size);
    b.reserved_size = b.size = size;
    b.kind = mock_memory::vmm;
    b.use = block_use::reservation;
    b.id = s.next_id++;
    s.blocks[b.base] = b;
    *out = b.base;
    return result::success;
  });
}

result address_free(device_ptr at, std::size_t size) {
  return guarded("cuMemAddressFree", needs::started, [&](state& s) {
    const auto found = s.blocks.find(at);
    if (found == s.blocks.end() || found->second.use != block_use::reservation ||
        found->second.size != size)
      return result::invalid_value;
    s.drop(at);
    return result::success;
  });
}

result map(device_ptr at, std::size_t size, std::size_t offset, allocation_handle handle,
           unsigned long long) {
  return guarded("cuMemMap", needs::started, [&](state& s) {
    const auto found = s.blocks.find(at);
    const auto memory = s.handles.find(handle);
    if (found == s.blocks.end() || found->second.use != block_use::reservation || offset != 0 ||
        memory == s.handles.end() || size > found->second.size || size > memory->second->size)
      return result::invalid_value;
    found->second.memory = memory->second;
    found->second.use = block_use::vmm_import;
    found->second.accessible = false;
    found->second.peers.clear();
    return result::success;
  });
}

result unmap(device_ptr at, std::size_t) {
  return guarded("cuMemUnmap", needs::started, [&](state& s) {
    const auto found = s.blocks.find(at);
    if (found == s.blocks.end() || found->second.use != block_use::vmm_import)
      return result::invalid_value;
    found->second.memory.reset();
    found->second.use = block_use::reservation;
    return result::success;
  });
}

result set_access(device_ptr at, std::size_t, const access_desc* what, std::size_t count) {
  return guarded("cuMemSetAccess", needs::started, [&](state& s) {
    block* const b = s.find(at);
    if (b == nullptr || b->use != block_use::vmm_import || count != 1 || what->where.id < 0 ||
        what->where.id >= s.config.gpus)
      return result::invalid_value;
    // The first one is the GPU that the memory is mapped for.
    if (b->accessible && what->where.id != b->gpu) {
      if (!s.config.peer_access) return result::invalid_device;
      b->peers.insert(what->where.id);
      return result::success;
    }
    b->gpu = what->where.id;
    b->accessible = what->flags == cuda::abi::access_flags::read_write;
    return result::success;
  });
}

result range_handle(void* out, device_ptr at, std::size_t size, range_handle_type type,
                    unsigned long long flags) {
  return guarded("cuMemGetHandleForAddressRange", needs::context, [&](state& s) {
    if (type != range_handle_type::dma_buf_fd || at % PAGE != 0 || size % PAGE != 0 || size == 0)
      return result::invalid_value;
    const block* const b = s.find(at, size);
    if (b == nullptr || !b->memory) return result::invalid_value;
    // As driver 580 answers for them.
    if (b->kind == mock_memory::managed || b->kind == mock_memory::pool)
      return result::invalid_value;
    const bool can = s.config.dma_buf && (flags == 0 || s.config.pcie_dma_buf);
    if (flags > cuda::abi::DMA_BUF_MAPPING_PCIE || !can) return result::not_supported;
    const int fd = fcntl(b->memory->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return result::operating_system;
    std::memcpy(out, &fd, sizeof(fd));
    return result::success;
  });
}

}  // namespace

void fill_sharing(functions& table) {
  table.ipc_get_mem_handle = &ipc_get;
  table.ipc_open_mem_handle = &ipc_open;
  table.ipc_close_mem_handle = &ipc_close;
  table.mem_create = &create;
  table.mem_retain_allocation_handle = &retain_handle;
  table.mem_export_to_shareable_handle = &export_handle;
  table.mem_import_from_shareable_handle = &import_handle;
  table.mem_get_allocation_granularity = &get_granularity;
  table.mem_address_reserve = &reserve;
  table.mem_address_free = &address_free;
  table.mem_map = &map;
  table.mem_unmap = &unmap;
  table.mem_set_access = &set_access;
  table.mem_release = &release_allocation;
  table.mem_get_handle_for_address_range = &range_handle;
}

}  // namespace lci::mock
