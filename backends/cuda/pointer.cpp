#include "backends/cuda/pointer.hpp"

#include <array>

#include "backends/cuda/gpu.hpp"

namespace lci::cuda {
namespace {

using attribute = abi::pointer_attribute;

// Where the driver puts its answers. What it has no answer for stays 0.
struct answers {
  abi::context context = nullptr;
  unsigned memory_type = 0;
  void* host_pointer = nullptr;
  unsigned long long buffer_id = 0;
  unsigned is_managed = 0;
  int ordinal = -1;
  unsigned legacy_ipc = 0;
  abi::device_ptr base = 0;
  std::size_t size = 0;
  unsigned mapped = 0;
  unsigned handle_types = 0;
  abi::memory_pool pool = nullptr;
};

// Flags are asked into words of their own that are larger than a bool of any driver and were
// zeroed, so it does not matter how many of their bytes it writes.
abi::result ask_all(const abi::functions& call, abi::device_ptr pointer, answers& to) noexcept {
  std::array what{attribute::owner_context,
                  attribute::memory_type,
                  attribute::host_pointer,
                  attribute::buffer_id,
                  attribute::is_managed,
                  attribute::device_ordinal,
                  attribute::is_legacy_ipc_capable,
                  attribute::range_start_addr,
                  attribute::range_size,
                  attribute::mapped,
                  attribute::allowed_handle_types,
                  attribute::mempool_handle};
  std::array<void*, what.size()> into{&to.context,    &to.memory_type,  &to.host_pointer,
                                      &to.buffer_id,  &to.is_managed,   &to.ordinal,
                                      &to.legacy_ipc, &to.base,         &to.size,
                                      &to.mapped,     &to.handle_types, &to.pool};
  return call.pointer_get_attributes(static_cast<unsigned>(what.size()), what.data(), into.data(),
                                     pointer);
}

// What only VMM memory needs: the extent of the mapping rather than of the reserved range, which
// several mappings may share, and which memory is mapped. The list above may not hold the second
// attribute, and a driver that is too old for it refuses.
failure ask_mapping(const abi::functions& call, abi::device_ptr pointer, allocation& to) noexcept {
  if (call.mem_get_address_range == nullptr || call.pointer_get_attribute == nullptr) return {};
  unsigned long long block = 0;
  if (call.pointer_get_attribute(&block, attribute::memory_block_id, pointer) ==
      abi::result::success)
    to.id.block_id = block;
  return {call.mem_get_address_range(&to.base, &to.size, pointer), "cuMemGetAddressRange"};
}

// The driver answers that only to threads with a context, unlike the attributes.
failure ask_mapping_anywhere(const abi::functions& call, abi::device_ptr pointer,
                             allocation& to) noexcept {
  const failure first = ask_mapping(call, pointer, to);
  if (first.code != abi::result::invalid_context) return first;
  abi::context primary = nullptr;
  const abi::result got = call.primary_ctx_retain(&primary, to.ordinal);
  if (got != abi::result::success) return {got, "cuDevicePrimaryCtxRetain"};
  failure second;
  {
    const context_scope scope(call, primary);
    second = {scope.entered(), "cuCtxPushCurrent"};
    if (!second) second = ask_mapping(call, pointer, to);
  }
  call.primary_ctx_release(to.ordinal);
  return second;
}

bool is_on_host(unsigned memory_type) noexcept {
  return memory_type == static_cast<unsigned>(abi::memory_type::host);
}

allocation_kind kind_of(const answers& got) noexcept {
  if (got.is_managed != 0) return allocation_kind::managed;
  if (got.memory_type == 0)
    return got.size == 0 ? allocation_kind::host : allocation_kind::unmapped;
  if (is_on_host(got.memory_type)) {
    return got.host_pointer != nullptr ? allocation_kind::pinned : allocation_kind::unreachable;
  }
  if (got.pool != nullptr) return allocation_kind::pool;
  // Of what lies on the GPU, only cuMemAlloc has handles of the old kind.
  if (got.legacy_ipc != 0) return allocation_kind::device;
  // An allocation has an owner; a mapping has none. Memory of the first kind that cannot be shared
  // (another process's, imported here) is still an allocation.
  if (got.handle_types == 0 && got.context != nullptr) return allocation_kind::device;
  return got.mapped != 0 ? allocation_kind::vmm : allocation_kind::unmapped;
}

// A program that has the library but never started CUDA has no CUDA memory.
bool means_no_cuda(abi::result answer) noexcept { return answer == abi::result::not_initialized; }

}  // namespace

classified classify(const abi::functions* call, const void* pointer) noexcept {
  classified result;
  if (call == nullptr || pointer == nullptr) return result;
  answers got;
  const abi::result answer = ask_all(*call, as_device(pointer), got);
  if (means_no_cuda(answer)) return result;
  if (answer != abi::result::success) {
    result.error = {answer, "cuPointerGetAttributes"};
    return result;
  }
  allocation& what = result.what;
  what.kind = kind_of(got);
  if (what.kind == allocation_kind::host) return result;
  what.legacy_ipc = got.legacy_ipc != 0;
  what.fd_export =
      (got.handle_types & static_cast<unsigned>(abi::handle_type::posix_file_descriptor)) != 0;
  what.fabric_export = (got.handle_types & static_cast<unsigned>(abi::handle_type::fabric)) != 0;
  what.ordinal = got.ordinal;
  what.base = got.base;
  what.size = got.size;
  what.id = {got.buffer_id, 0};
  what.context = got.context;
  if (what.kind == allocation_kind::vmm)
    result.error = ask_mapping_anywhere(*call, as_device(pointer), what);
  if (result.error) what = {};
  return result;
}

glance look(const abi::functions* call, const void* pointer) noexcept {
  glance result;
  if (call == nullptr || pointer == nullptr) return result;
  std::array what{attribute::memory_type, attribute::buffer_id, attribute::range_start_addr,
                  attribute::range_size};
  unsigned type = 0;
  unsigned long long id = 0;
  std::array<void*, what.size()> into{&type, &id, &result.base, &result.size};
  const abi::result answer = call->pointer_get_attributes(
      static_cast<unsigned>(what.size()), what.data(), into.data(), as_device(pointer));
  if (means_no_cuda(answer)) return result;
  if (answer != abi::result::success) {
    result.error = {answer, "cuPointerGetAttributes"};
    return result;
  }
  result.buffer_id = id;
  result.is_plain_host = type == 0 && id == 0 && result.size == 0;
  return result;
}

const char* name_of(allocation_kind kind) noexcept {
  switch (kind) {
    case allocation_kind::host:
      return "host";
    case allocation_kind::pinned:
      return "pinned host";
    case allocation_kind::device:
      return "device";
    case allocation_kind::pool:
      return "stream-ordered";
    case allocation_kind::vmm:
      return "VMM";
    case allocation_kind::managed:
      return "managed";
    case allocation_kind::unreachable:
      return "GPU-only host";
    case allocation_kind::unmapped:
      return "unmapped";
  }
  return "unknown";
}

std::string why_unusable(const allocation& what) {
  switch (what.kind) {
    case allocation_kind::managed:
      return "managed memory (cudaMallocManaged) moves between host and GPU while it is used, so "
             "it can be neither registered nor shared: pass memory of cudaMalloc or host memory";
    case allocation_kind::unreachable:
      return "GPU-only host memory (cuMemCreate on the host without access for the processor) is "
             "not handled: pass memory of cudaMallocHost";
    case allocation_kind::unmapped:
      return "the address is in an unmapped part of a reserved range (cuMemAddressReserve): map "
             "memory there first";
    default:
      return "";
  }
}

}  // namespace lci::cuda
