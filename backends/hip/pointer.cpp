#include "backends/hip/pointer.hpp"

#include <cstdint>
#include <cstring>

#include "backends/hip/contexts.hpp"
#include "backends/hip/library.hpp"

namespace lci::hip {
namespace {

using cuda::abi::device_ptr;
using cuda::abi::memory_type;
using cuda::abi::pointer_attribute;
using cuda::abi::result;

struct answers {
  bool is_known = false;
  bool on_host = false;
  bool is_managed = false;
  int ordinal = -1;
  void* host = nullptr;
  std::uint64_t id = 0;
  void* base = nullptr;
  std::size_t size = 0;
  void* pool = nullptr;
};

#if HIP_VERSION_MAJOR >= 6
hipMemoryType type_of(const hipPointerAttribute_t& of) noexcept { return of.type; }
bool is_unknown(hipMemoryType type) noexcept { return type == hipMemoryTypeUnregistered; }
#else
hipMemoryType type_of(const hipPointerAttribute_t& of) noexcept { return of.memoryType; }
bool is_unknown(hipMemoryType) noexcept { return false; }  // an error says so
#endif

// Zeros are part of the answer: how many bytes of it a release writes does not matter.
template <class T>
hipError_t ask(T& to, hipPointer_attribute what, void* pointer) noexcept {
  std::uint64_t wide = 0;
  static_assert(sizeof(T) == sizeof(wide));
  const hipError_t answer = call().pointer_get_attribute(&wide, what, pointer);
  if (answer == hipSuccess) std::memcpy(&to, &wide, sizeof(to));
  return answer;
}

result look_up(void* pointer, answers& to) noexcept {
  hipPointerAttribute_t found{};
  const hipError_t answer = call().pointer_get_attributes(&found, pointer);
  if (answer == hipErrorInvalidValue || is_unknown(type_of(found))) return result::success;
  if (answer != hipSuccess) return static_cast<result>(answer);
  to.is_known = true;
  to.on_host = type_of(found) == hipMemoryTypeHost;
  to.is_managed = found.isManaged != 0;
  to.ordinal = found.device;
  to.host = found.hostPointer;
  hipError_t more = call().mem_get_address_range(&to.base, &to.size, pointer);
  if (more == hipSuccess) more = ask(to.id, HIP_POINTER_ATTRIBUTE_BUFFER_ID, pointer);
  if (more != hipSuccess) return static_cast<result>(more);
  // A release that does not know this has no such pools, or says of none that it is from one.
  (void)ask(to.pool, HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer);
  return to.id == 0 ? result::not_supported : result::success;
}

template <class T>
void put(void* to, T value) noexcept {
  std::memcpy(to, &value, sizeof(value));
}

// What the attribute's type is in CUDA.
void tell(const answers& of, pointer_attribute what, void* to) noexcept {
  const bool on_gpu = of.is_known && !of.on_host;
  switch (what) {
    case pointer_attribute::owner_context:
      return put(to,
                 reinterpret_cast<std::uintptr_t>(of.is_known ? context_of(of.ordinal) : nullptr));
    case pointer_attribute::memory_type:
      return put(to, !of.is_known ? 0U
                                  : static_cast<unsigned>(of.on_host ? memory_type::host
                                                                     : memory_type::gpu));
    case pointer_attribute::host_pointer:
      return put(to, of.on_host ? of.host : nullptr);
    case pointer_attribute::buffer_id:
      return put(to, static_cast<unsigned long long>(of.id));
    case pointer_attribute::is_managed:
      return put(to, static_cast<unsigned>(of.is_managed));
    case pointer_attribute::device_ordinal:
      return put(to, of.ordinal);
    case pointer_attribute::is_legacy_ipc_capable:
      return put(to, static_cast<unsigned>(on_gpu && of.pool == nullptr && !of.is_managed));
    case pointer_attribute::range_start_addr:
      return put(to, reinterpret_cast<device_ptr>(of.base));
    case pointer_attribute::range_size:
      return put(to, of.size);
    case pointer_attribute::mapped:
      return put(to, static_cast<unsigned>(of.is_known));
    case pointer_attribute::mempool_handle:
      return put(to, of.pool);
    default:
      return put(to, 0U);  // handle types: none
  }
}

}  // namespace

result get_attributes(unsigned count, pointer_attribute* attributes, void** data,
                      device_ptr pointer) {
  answers found;
  const result answer = look_up(reinterpret_cast<void*>(pointer), found);
  if (!found.is_known || answer != result::success) (void)call().get_last_error();
  if (answer != result::success) return answer;
  for (unsigned i = 0; i < count; ++i) tell(found, attributes[i], data[i]);
  return result::success;
}

}  // namespace lci::hip
