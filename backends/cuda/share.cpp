#include "backends/cuda/share.hpp"

#include <cstring>

#include "backends/cuda/errors.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {
namespace {

// On the wire, little endian like all of it: version 1, way 1, padding 2, zero 4, base 8, size 8,
// buffer id 8, block id 8, handle 64.
constexpr std::uint8_t VERSION = 1;
constexpr std::size_t BASE_AT = 8, SIZE_AT = 16, BUFFER_AT = 24, BLOCK_AT = 32, HANDLE_AT = 40;
static_assert(HANDLE_AT + sizeof(abi::ipc_mem_handle) == share_ticket::BYTES);

std::uint64_t number_at(std::span<const std::byte> bytes, std::size_t at) noexcept {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

std::string allocation_text(const allocation& what, abi::device_ptr at, std::size_t size) {
  return std::string(name_of(what.kind)) + " memory of " + std::to_string(size) + " bytes on GPU " +
         std::to_string(what.ordinal) + ", offset " + std::to_string(at - what.base) + " of " +
         std::to_string(what.size);
}

exported refuse(std::string why) {
  exported result;
  result.why_not = std::move(why);
  return result;
}

exported export_legacy(gpu& g, const allocation& what, exported result) {
  // The allocation's own context, which need not be the primary one.
  const context_scope scope(g.call(), what.context != nullptr ? what.context : g.context());
  failure error{scope.entered(), "cuCtxPushCurrent"};
  if (!error)
    error = {g.call().ipc_get_mem_handle(&result.ticket.handle, what.base), "cuIpcGetMemHandle"};
  if (error) return refuse(text_of(g.call(), error, allocation_text(what, what.base, what.size)));
  return result;
}

// Of the VMM allocation behind it; `out` is what that kind of handle is.
failure export_handle(const abi::functions& call, const allocation& what, abi::handle_type as,
                      void* out) noexcept {
  abi::allocation_handle handle = 0;
  failure error{call.mem_retain_allocation_handle(
                    &handle, reinterpret_cast<void*>(static_cast<std::uintptr_t>(what.base))),
                "cuMemRetainAllocationHandle"};
  if (error) return error;
  error = {call.mem_export_to_shareable_handle(out, handle, as, 0), "cuMemExportToShareableHandle"};
  // It was only for asking: a descriptor keeps the memory. A fabric handle is not relied on to.
  log_teardown(call, call.mem_release(handle), "cuMemRelease");
  return error;
}

exported export_vmm(gpu& g, const allocation& what, exported result) {
  failure error;
  if (result.ticket.way == share_way::vmm_fabric) {
    error = export_handle(g.call(), what, abi::handle_type::fabric, &result.ticket.handle);
  } else {
    int fd = -1;
    error = export_handle(g.call(), what, abi::handle_type::posix_file_descriptor, &fd);
    if (!error) result.fd.reset(fd);
  }
  if (error) return refuse(text_of(g.call(), error, allocation_text(what, what.base, what.size)));
  return result;
}

}  // namespace

std::array<std::byte, share_ticket::BYTES> share_ticket::encode() const noexcept {
  std::array<std::byte, BYTES> bytes{};
  bytes[0] = std::byte{VERSION};
  bytes[1] = static_cast<std::byte>(way);
  std::memcpy(bytes.data() + BASE_AT, &base, sizeof(base));
  std::memcpy(bytes.data() + SIZE_AT, &size, sizeof(size));
  std::memcpy(bytes.data() + BUFFER_AT, &id.buffer_id, sizeof(id.buffer_id));
  std::memcpy(bytes.data() + BLOCK_AT, &id.block_id, sizeof(id.block_id));
  std::memcpy(bytes.data() + HANDLE_AT, &handle, sizeof(handle));
  return bytes;
}

std::optional<share_ticket> share_ticket::decode(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() != BYTES || bytes[0] != std::byte{VERSION}) return std::nullopt;
  for (std::size_t i = 2; i < BASE_AT; ++i) {
    if (bytes[i] != std::byte{0}) return std::nullopt;
  }
  share_ticket ticket;
  ticket.way = static_cast<share_way>(bytes[1]);
  if (ticket.way < share_way::legacy_ipc || ticket.way > share_way::vmm_fabric) return std::nullopt;
  ticket.base = number_at(bytes, BASE_AT);
  ticket.size = number_at(bytes, SIZE_AT);
  ticket.id = {number_at(bytes, BUFFER_AT), number_at(bytes, BLOCK_AT)};
  std::memcpy(&ticket.handle, bytes.data() + HANDLE_AT, sizeof(ticket.handle));
  if (ticket.size == 0 || ticket.base + ticket.size < ticket.base) return std::nullopt;
  return ticket;
}

share_way way_to_share(const allocation& what, std::string& why_not) {
  why_not = why_unusable(what);
  if (!why_not.empty()) return share_way::none;
  switch (what.kind) {
    case allocation_kind::device:
      if (what.legacy_ipc) return share_way::legacy_ipc;
      why_not = "this device memory has no CUDA IPC handle (it was imported from another process)";
      return share_way::none;
    case allocation_kind::vmm:
      if (!what.fd_export && !what.fabric_export) {
        why_not =
            "VMM memory has to be created with the handle type POSIX file descriptor, or fabric, "
            "to be shared (cuMemCreate, requestedHandleTypes)";
        return share_way::none;
      }
      if (what.id.block_id == 0) {
        why_not =
            "this driver cannot tell one VMM allocation behind an address from the next, so "
            "VMM memory is not shared";
        return share_way::none;
      }
      return what.fd_export ? share_way::vmm_descriptor : share_way::vmm_fabric;
    case allocation_kind::pool:
      why_not = "stream-ordered memory (cudaMallocAsync) has no CUDA IPC handle";
      return share_way::none;
    default:
      why_not = std::string(name_of(what.kind)) + " memory is not shared through CUDA";
      return share_way::none;
  }
}

exported export_range(gpu_list& gpus, const allocation& what, abi::device_ptr at,
                      std::size_t size) {
  exported result;
  result.ticket.way = way_to_share(what, result.why_not);
  if (result.ticket.way == share_way::none) return result;
  if (!what.contains(at, size)) {
    return refuse("the range reaches beyond its " +
                  std::string(what.kind == allocation_kind::vmm ? "mapping" : "allocation") + ": " +
                  allocation_text(what, at, size));
  }
  result.ticket.base = what.base;
  result.ticket.size = what.size;
  result.ticket.id = what.id;
  try {
    gpu& g = gpus.at(what.ordinal);
    return what.kind == allocation_kind::vmm ? export_vmm(g, what, std::move(result))
                                             : export_legacy(g, what, std::move(result));
  } catch (const backend_error& error) {
    return refuse(error.what());
  }
}

void add_fabric_handle(gpu_list& gpus, const allocation& what, exported& to) noexcept try {
  if (to.ticket.way != share_way::vmm_descriptor || !what.fabric_export) return;
  abi::ipc_mem_handle handle{};
  gpu& g = gpus.at(what.ordinal);
  if (export_handle(g.call(), what, abi::handle_type::fabric, &handle)) return;
  to.ticket.handle = handle;
  to.ticket.way = share_way::vmm_fabric;
} catch (const std::exception&) {
  return;  // the descriptor is there
}

}  // namespace lci::cuda
