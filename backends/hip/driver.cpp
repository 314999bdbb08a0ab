#include "backends/hip/driver.hpp"

#include <dlfcn.h>

#include <cstdint>

#include "backends/hip/contexts.hpp"
#include "backends/hip/library.hpp"
#include "backends/hip/pointer.hpp"

#define LCI_HIP_TEXT_OF(number) #number
#define LCI_HIP_TEXT(number) LCI_HIP_TEXT_OF(number)

namespace lci::hip {
namespace {

namespace abi = cuda::abi;
using abi::device_attribute;
using abi::device_ptr;
using abi::result;

// HIP took over CUDA's numbers of errors and flags. What backends/cuda tells apart:
constexpr bool is(hipError_t theirs, result ours) { return static_cast<result>(theirs) == ours; }
static_assert(is(hipSuccess, result::success) && is(hipErrorInvalidValue, result::invalid_value) &&
              is(hipErrorOutOfMemory, result::out_of_memory) &&
              is(hipErrorNotInitialized, result::not_initialized) &&
              is(hipErrorDeinitialized, result::deinitialized) &&
              is(hipErrorNoDevice, result::no_device) &&
              is(hipErrorInvalidDevice, result::invalid_device) &&
              is(hipErrorInvalidContext, result::invalid_context) &&
              is(hipErrorMapFailed, result::map_failed) &&
              is(hipErrorAlreadyMapped, result::already_mapped) &&
              is(hipErrorNotMapped, result::not_mapped) &&
              is(hipErrorPeerAccessUnsupported, result::peer_access_unsupported) &&
              is(hipErrorInvalidHandle, result::invalid_handle) &&
              is(hipErrorNotFound, result::not_found) && is(hipErrorNotReady, result::not_ready) &&
              is(hipErrorPeerAccessAlreadyEnabled, result::peer_access_already_enabled) &&
              is(hipErrorContextIsDestroyed, result::context_is_destroyed) &&
              is(hipErrorHostMemoryAlreadyRegistered, result::host_memory_already_registered) &&
              is(hipErrorHostMemoryNotRegistered, result::host_memory_not_registered) &&
              is(hipErrorNotSupported, result::not_supported) &&
              is(hipErrorStreamCaptureUnsupported, result::stream_capture_unsupported) &&
              is(hipErrorStreamCaptureInvalidated, result::stream_capture_invalidated) &&
              is(hipErrorStreamCaptureImplicit, result::stream_capture_implicit));
static_assert(hipStreamNonBlocking == abi::STREAM_NON_BLOCKING &&
              hipEventDisableTiming == abi::EVENT_DISABLE_TIMING &&
              hipHostMallocPortable == abi::HOST_ALLOC_PORTABLE &&
              hipHostMallocMapped == abi::HOST_ALLOC_DEVICE_MAP &&
              hipHostRegisterPortable == abi::HOST_REGISTER_PORTABLE &&
              hipHostRegisterMapped == abi::HOST_REGISTER_DEVICE_MAP);
static_assert(static_cast<int>(hipStreamCaptureModeRelaxed) ==
                  static_cast<int>(abi::capture_mode::relaxed) &&
              static_cast<int>(hipStreamCaptureStatusActive) ==
                  static_cast<int>(abi::capture_status::active) &&
              static_cast<int>(hipStreamCaptureStatusInvalidated) ==
                  static_cast<int>(abi::capture_status::invalidated));
static_assert(sizeof(hipIpcMemHandle_t) == sizeof(abi::ipc_mem_handle));

result told(hipError_t answer) { return static_cast<result>(answer); }
void* pointer_of(device_ptr at) { return reinterpret_cast<void*>(at); }
void** pointers(device_ptr* at) { return reinterpret_cast<void**>(at); }
hipStream_t stream_of(abi::stream s) { return reinterpret_cast<hipStream_t>(s); }
hipEvent_t event_of(abi::event e) { return reinterpret_cast<hipEvent_t>(e); }

// 50221153 is 5.2 with a patch behind it.
result get_version(int* version) {
  int theirs = 0;
  const hipError_t answer = call().driver_get_version(&theirs);
  *version = theirs / 10000000 * 1000 + theirs / 100000 % 100 * 10;
  return told(answer);
}

// Those that the table is asked for.
result get_device_attribute(int* value, device_attribute what, abi::device gpu) {
  switch (what) {
    case device_attribute::unified_addressing:
      *value = 1;  // every GPU that HIP drives on Linux
      return result::success;
    case device_attribute::can_use_64_bit_stream_mem_ops:
      return told(call().device_get_attribute(value, hipDeviceAttributeCanUseStreamWaitValue, gpu));
    default:
      *value = 0;
      return result::success;
  }
}

result enable_peer(abi::context peer, unsigned flags) {
  return told(call().device_enable_peer_access(ordinal_of(peer), flags));
}

// HIP says which device a stream is of; for a default stream it is the current one.
result get_stream_context(abi::stream s, abi::context* out) {
  int ordinal = 0;
  if (s == nullptr) {
    const hipError_t answer = call().get_device(&ordinal);
    *out = context_of(ordinal);
    return told(answer);
  }
  ordinal = call().get_stream_device_id(stream_of(s));
  if (ordinal < 0) return result::invalid_handle;
  *out = context_of(ordinal);
  return result::success;
}

// The flag is not CUDA's in every release.
result open_ipc(device_ptr* out, abi::ipc_mem_handle handle, unsigned) {
  hipIpcMemHandle_t theirs;
  static_assert(sizeof(theirs.reserved) == sizeof(handle.reserved));
  for (std::size_t i = 0; i < sizeof(handle.reserved); ++i) theirs.reserved[i] = handle.reserved[i];
  return told(call().ipc_open_mem_handle(pointers(out), theirs, hipIpcMemLazyEnablePeerAccess));
}

// HIP 5.2 calls it an invalid device when there is none.
result init(unsigned flags) {
  const hipError_t answer = call().init(flags);
  return answer == hipErrorInvalidDevice ? result::no_device : told(answer);
}

void fill_devices(abi::functions& to) {
  to.init = &init;
  to.driver_get_version = &get_version;
  to.get_error_name = [](result error, const char** text) {
    *text = call().get_error_name(static_cast<hipError_t>(error));
    return result::success;
  };
  to.get_error_string = [](result error, const char** text) {
    *text = call().get_error_string(static_cast<hipError_t>(error));
    return result::success;
  };
  to.device_get_count = [](int* count) { return told(call().get_device_count(count)); };
  // A device is its number.
  to.device_get = [](abi::device* gpu, int ordinal) {
    *gpu = ordinal;
    return result::success;
  };
  to.device_get_name = [](char* name, int length, abi::device gpu) {
    return told(call().device_get_name(name, length, gpu));
  };
  to.device_get_pci_bus_id = [](char* text, int length, abi::device gpu) {
    return told(call().device_get_pci_bus_id(text, length, gpu));
  };
  to.device_get_attribute = &get_device_attribute;
  to.device_can_access_peer = [](int* can, abi::device gpu, abi::device peer) {
    return told(call().device_can_access_peer(can, gpu, peer));
  };
  to.primary_ctx_retain = [](abi::context* out, abi::device gpu) {
    *out = context_of(gpu);
    return result::success;
  };
  to.primary_ctx_release = [](abi::device) { return result::success; };
  to.ctx_push_current = &push_context;
  to.ctx_pop_current = &pop_context;
  to.ctx_get_device = [](abi::device* gpu) { return told(call().get_device(gpu)); };
  to.ctx_enable_peer_access = &enable_peer;
  to.exchange_stream_capture_mode = [](abi::capture_mode* mode) {
    auto theirs = static_cast<hipStreamCaptureMode>(*mode);
    const hipError_t answer = call().exchange_stream_capture_mode(&theirs);
    *mode = static_cast<abi::capture_mode>(theirs);
    return told(answer);
  };
}

void fill_memory(abi::functions& to) {
  to.pointer_get_attributes = &get_attributes;
  to.mem_get_address_range = [](device_ptr* base, std::size_t* size, device_ptr at) {
    return told(call().mem_get_address_range(pointers(base), size, pointer_of(at)));
  };
  to.mem_alloc = [](device_ptr* memory, std::size_t size) {
    return told(call().mem_alloc(pointers(memory), size));
  };
  to.mem_free = [](device_ptr memory) { return told(call().mem_free(pointer_of(memory))); };
  to.mem_host_alloc = [](void** host, std::size_t size, unsigned flags) {
    // Words of streams are read here while the GPU runs on.
    return told(call().host_malloc(host, size, flags | hipHostMallocCoherent));
  };
  to.mem_free_host = [](void* host) { return told(call().host_free(host)); };
  to.mem_host_register = [](void* host, std::size_t size, unsigned flags) {
    return told(call().host_register(host, size, flags));
  };
  to.mem_host_unregister = [](void* host) { return told(call().host_unregister(host)); };
  to.mem_host_get_device_pointer = [](device_ptr* at, void* host, unsigned flags) {
    return told(call().host_get_device_pointer(pointers(at), host, flags));
  };
  to.ipc_get_mem_handle = [](abi::ipc_mem_handle* handle, device_ptr at) {
    return told(
        call().ipc_get_mem_handle(reinterpret_cast<hipIpcMemHandle_t*>(handle), pointer_of(at)));
  };
  to.ipc_open_mem_handle = &open_ipc;
  to.ipc_close_mem_handle = [](device_ptr at) {
    return told(call().ipc_close_mem_handle(pointer_of(at)));
  };
}

void fill_streams(abi::functions& to) {
  to.stream_create = [](abi::stream* out, unsigned flags) {
    return told(call().stream_create(reinterpret_cast<hipStream_t*>(out), flags));
  };
  to.stream_destroy = [](abi::stream s) { return told(call().stream_destroy(stream_of(s))); };
  to.stream_query = [](abi::stream s) { return told(call().stream_query(stream_of(s))); };
  to.stream_get_ctx = &get_stream_context;
  to.stream_is_capturing = [](abi::stream s, abi::capture_status* status) {
    auto theirs = hipStreamCaptureStatusNone;
    const hipError_t answer = call().stream_is_capturing(stream_of(s), &theirs);
    *status = static_cast<abi::capture_status>(theirs);
    return told(answer);
  };
  to.stream_wait_event = [](abi::stream s, abi::event e, unsigned flags) {
    return told(call().stream_wait_event(stream_of(s), event_of(e), flags));
  };
  to.stream_write_value_32 = [](abi::stream s, device_ptr at, std::uint32_t value, unsigned flags) {
    return told(call().stream_write_value_32(stream_of(s), pointer_of(at), value, flags));
  };
  to.stream_write_value_64 = [](abi::stream s, device_ptr at, std::uint64_t value, unsigned flags) {
    return told(call().stream_write_value_64(stream_of(s), pointer_of(at), value, flags));
  };
  to.event_create = [](abi::event* out, unsigned flags) {
    return told(call().event_create(reinterpret_cast<hipEvent_t*>(out), flags));
  };
  to.event_destroy = [](abi::event e) { return told(call().event_destroy(event_of(e))); };
  to.event_record = [](abi::event e, abi::stream s) {
    return told(call().event_record(event_of(e), stream_of(s)));
  };
  to.event_query = [](abi::event e) { return told(call().event_query(event_of(e))); };
  to.memcpy_async = [](device_ptr into, device_ptr from, std::size_t size, abi::stream s) {
    return told(call().memcpy_async(pointer_of(into), pointer_of(from), size, hipMemcpyDefault,
                                    stream_of(s)));
  };
}

std::string resolve(void* loaded, abi::functions& table) {
  std::string missing = resolve_library(loaded);
  if (!missing.empty()) return missing;  // the table stays empty: nothing is called
  fill_devices(table);
  fill_memory(table);
  fill_streams(table);
  return "";
}

}  // namespace

constinit const cuda::driver_kind HIP{"hip",
                                      "HIP",
                                      "libamdhip64.so." LCI_HIP_TEXT(HIP_VERSION_MAJOR),
                                      "use_hip",
                                      "LCI_ATTR_USE_HIP",
                                      "HIP_VISIBLE_DEVICES",
                                      &resolve};

}  // namespace lci::hip
