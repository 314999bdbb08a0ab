// HIP's library without a GPU: what its documentation says about each function, done by the mock of
// CUDA's driver. So device memory cannot be touched by the processor here either, and streams run
// late and in any order. Unlike CUDA, a pointer that HIP does not know is an error, every error is
// kept for hipGetLastError(), and a thread has a device instead of a stack of contexts. Threads:
// shared, as the mock.
#define __HIP_PLATFORM_AMD__ 1
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "backends/cuda/driver.hpp"

namespace abi = lci::cuda::abi;
using abi::device_ptr;
using abi::pointer_attribute;

namespace {

abi::functions load() {
  void* const mock = dlopen(LCI_MOCK_CUDA, RTLD_NOW | RTLD_LOCAL);
  if (mock == nullptr) std::abort();
  const auto get = reinterpret_cast<abi::get_proc_address_v2>(dlsym(mock, "cuGetProcAddress_v2"));
  abi::functions table{};
  for (const lci::cuda::entry_point& row : lci::cuda::entry_points()) {
    void* found = nullptr;
    abi::proc_address_status status{};
    get(row.name, &found, row.version, 0, &status);
    std::memcpy(reinterpret_cast<char*>(&table) + row.slot, &found, sizeof(found));
  }
  return table;
}

const abi::functions& mock() {
  static const abi::functions table = load();
  return table;
}

thread_local int device_tls = 0;
thread_local hipError_t last_tls = hipSuccess;

hipError_t told(hipError_t answer) {
  if (answer != hipSuccess) last_tls = answer;
  return answer;
}
hipError_t told(abi::result answer) { return told(static_cast<hipError_t>(answer)); }

// The primary context of a GPU, current for one call. Retained for good, as HIP does it.
class in_device {
 public:
  explicit in_device(int gpu = device_tls) {
    static std::array<abi::context, 8> all{};
    abi::context& one = all.at(static_cast<std::size_t>(gpu));
    if (one == nullptr) mock().primary_ctx_retain(&one, gpu);
    mock().ctx_push_current(one);
  }
  ~in_device() {
    abi::context gone = nullptr;
    mock().ctx_pop_current(&gone);
  }
};

// Streams belong to a device, which need not be the current one.
int device_of(hipStream_t s) {
  abi::context owner = nullptr;
  if (mock().stream_get_ctx(reinterpret_cast<abi::stream>(s), &owner) != abi::result::success)
    return -1;
  mock().ctx_push_current(owner);
  int gpu = -1;
  mock().ctx_get_device(&gpu);
  mock().ctx_pop_current(&owner);
  return gpu;
}
template <class Call>
hipError_t in_stream(hipStream_t s, Call call) {
  const int gpu = device_of(s);
  if (gpu < 0) return told(hipErrorInvalidHandle);
  const in_device here(gpu);
  return told(call(reinterpret_cast<abi::stream>(s)));
}

device_ptr address(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }
device_ptr* addresses(void** at) { return reinterpret_cast<device_ptr*>(at); }

template <class T>
T ask(pointer_attribute what, const void* at) {
  T value{};
  void* into = &value;
  mock().pointer_get_attributes(1, &what, &into, address(at));
  return value;
}

}  // namespace

#define LCI_FAKE __attribute__((visibility("default")))

extern "C" {

LCI_FAKE hipError_t hipInit(unsigned flags) { return told(mock().init(flags)); }
LCI_FAKE hipError_t hipDriverGetVersion(int* version) {
  *version = HIP_VERSION;
  return hipSuccess;
}
LCI_FAKE const char* hipGetErrorName(hipError_t error) {
  return error == hipErrorOutOfMemory ? "hipErrorOutOfMemory" : "hipErrorOther";
}
LCI_FAKE const char* hipGetErrorString(hipError_t error) {
  return error == hipErrorOutOfMemory ? "out of memory" : "another error";
}
LCI_FAKE hipError_t hipGetLastError() {
  const hipError_t last = last_tls;
  last_tls = hipSuccess;
  return last;
}
LCI_FAKE hipError_t hipGetDeviceCount(int* count) { return told(mock().device_get_count(count)); }
LCI_FAKE hipError_t hipGetDevice(int* gpu) {
  *gpu = device_tls;
  return hipSuccess;
}
LCI_FAKE hipError_t hipSetDevice(int gpu) {
  int count = 0;
  mock().device_get_count(&count);
  if (gpu < 0 || gpu >= count) return told(hipErrorInvalidDevice);
  device_tls = gpu;
  return hipSuccess;
}
LCI_FAKE hipError_t hipDeviceGetName(char* name, int length, hipDevice_t gpu) {
  return told(mock().device_get_name(name, length, gpu));
}
LCI_FAKE hipError_t hipDeviceGetPCIBusId(char* text, int length, int gpu) {
  return told(mock().device_get_pci_bus_id(text, length, gpu));
}
LCI_FAKE hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t what, int gpu) {
  if (what != hipDeviceAttributeCanUseStreamWaitValue) return told(hipErrorInvalidValue);
  return told(mock().device_get_attribute(
      value, abi::device_attribute::can_use_64_bit_stream_mem_ops, gpu));
}
LCI_FAKE hipError_t hipDeviceCanAccessPeer(int* can, int gpu, int peer) {
  return told(mock().device_can_access_peer(can, gpu, peer));
}
LCI_FAKE hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  abi::context other = nullptr;
  mock().primary_ctx_retain(&other, peer);
  abi::result answer;
  {
    const in_device here;
    answer = mock().ctx_enable_peer_access(other, flags);
  }
  mock().primary_ctx_release(peer);
  return told(answer);
}
LCI_FAKE hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
  return told(mock().exchange_stream_capture_mode(reinterpret_cast<abi::capture_mode*>(mode)));
}

LCI_FAKE hipError_t hipPointerGetAttributes(hipPointerAttribute_t* to, const void* at) {
  const auto type =
      static_cast<abi::memory_type>(ask<unsigned>(pointer_attribute::memory_type, at));
  if (type == abi::memory_type::none) return told(hipErrorInvalidValue);
  *to = {};
  const bool on_host = type == abi::memory_type::host;
#if HIP_VERSION_MAJOR >= 6
  to->type = on_host ? hipMemoryTypeHost : hipMemoryTypeDevice;
#else
  to->memoryType = on_host ? hipMemoryTypeHost : hipMemoryTypeDevice;
#endif
  to->device = ask<int>(pointer_attribute::device_ordinal, at);
  to->hostPointer = ask<void*>(pointer_attribute::host_pointer, at);
  to->isManaged = static_cast<int>(ask<unsigned>(pointer_attribute::is_managed, at));
  return hipSuccess;
}
LCI_FAKE hipError_t hipPointerGetAttribute(void* to, hipPointer_attribute what, hipDeviceptr_t at) {
  // A release that does not tell who is who.
  if (what != HIP_POINTER_ATTRIBUTE_BUFFER_ID || std::getenv("LCI_FAKE_HIP_NO_ID") != nullptr)
    return told(hipErrorInvalidValue);
  const auto id = static_cast<unsigned>(ask<unsigned long long>(pointer_attribute::buffer_id, at));
  std::memcpy(to, &id, sizeof(id));  // HIP writes four bytes
  return hipSuccess;
}
LCI_FAKE hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* size, hipDeviceptr_t at) {
  const in_device here;
  return told(mock().mem_get_address_range(addresses(base), size, address(at)));
}
LCI_FAKE hipError_t hipMalloc(void** memory, size_t size) {
  const in_device here;
  return told(mock().mem_alloc(addresses(memory), size));
}
LCI_FAKE hipError_t hipFree(void* memory) {
  const in_device here;
  return told(mock().mem_free(address(memory)));
}
LCI_FAKE hipError_t hipHostMalloc(void** memory, size_t size, unsigned flags) {
  const in_device here;
  return told(mock().mem_host_alloc(memory, size, flags));
}
LCI_FAKE hipError_t hipHostFree(void* memory) { return told(mock().mem_free_host(memory)); }
LCI_FAKE hipError_t hipHostRegister(void* memory, size_t size, unsigned flags) {
  const in_device here;
  return told(mock().mem_host_register(memory, size, flags));
}
LCI_FAKE hipError_t hipHostUnregister(void* memory) {
  return told(mock().mem_host_unregister(memory));
}
LCI_FAKE hipError_t hipHostGetDevicePointer(void** at, void* host, unsigned flags) {
  const in_device here;
  return told(mock().mem_host_get_device_pointer(addresses(at), host, flags));
}
LCI_FAKE hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t* handle, void* at) {
  const in_device here;
  return told(
      mock().ipc_get_mem_handle(reinterpret_cast<abi::ipc_mem_handle*>(handle), address(at)));
}
LCI_FAKE hipError_t hipIpcOpenMemHandle(void** at, hipIpcMemHandle_t handle, unsigned flags) {
  if (flags != hipIpcMemLazyEnablePeerAccess) return told(hipErrorInvalidValue);
  abi::ipc_mem_handle ours;
  std::memcpy(&ours, &handle, sizeof(ours));
  const in_device here;
  return told(mock().ipc_open_mem_handle(addresses(at), ours, abi::IPC_LAZY_ENABLE_PEER_ACCESS));
}
LCI_FAKE hipError_t hipIpcCloseMemHandle(void* at) {
  const in_device here;
  return told(mock().ipc_close_mem_handle(address(at)));
}

LCI_FAKE hipError_t hipStreamCreateWithFlags(hipStream_t* s, unsigned flags) {
  const in_device here;
  return told(mock().stream_create(reinterpret_cast<abi::stream*>(s), flags));
}
LCI_FAKE hipError_t hipStreamDestroy(hipStream_t s) {
  return told(mock().stream_destroy(reinterpret_cast<abi::stream>(s)));
}
LCI_FAKE hipError_t hipStreamQuery(hipStream_t s) {
  return in_stream(s, [](abi::stream ours) { return mock().stream_query(ours); });
}
LCI_FAKE hipError_t hipStreamIsCapturing(hipStream_t s, hipStreamCaptureStatus* to) {
  return in_stream(s, [&](abi::stream ours) {
    return mock().stream_is_capturing(ours, reinterpret_cast<abi::capture_status*>(to));
  });
}
LCI_FAKE int hipGetStreamDeviceId(hipStream_t s) { return device_of(s); }
LCI_FAKE hipError_t hipStreamWaitEvent(hipStream_t s, hipEvent_t e, unsigned flags) {
  return in_stream(s, [&](abi::stream ours) {
    return mock().stream_wait_event(ours, reinterpret_cast<abi::event>(e), flags);
  });
}
LCI_FAKE hipError_t hipStreamWriteValue32(hipStream_t s, void* at, uint32_t value, unsigned flags) {
  return in_stream(s, [&](abi::stream ours) {
    return mock().stream_write_value_32(ours, address(at), value, flags);
  });
}
LCI_FAKE hipError_t hipStreamWriteValue64(hipStream_t s, void* at, uint64_t value, unsigned flags) {
  return in_stream(s, [&](abi::stream ours) {
    return mock().stream_write_value_64(ours, address(at), value, flags);
  });
}
LCI_FAKE hipError_t hipEventCreateWithFlags(hipEvent_t* e, unsigned flags) {
  const in_device here;
  return told(mock().event_create(reinterpret_cast<abi::event*>(e), flags));
}
LCI_FAKE hipError_t hipEventDestroy(hipEvent_t e) {
  return told(mock().event_destroy(reinterpret_cast<abi::event>(e)));
}
LCI_FAKE hipError_t hipEventRecord(hipEvent_t e, hipStream_t s) {
  return in_stream(s, [&](abi::stream ours) {
    return mock().event_record(reinterpret_cast<abi::event>(e), ours);
  });
}
LCI_FAKE hipError_t hipEventQuery(hipEvent_t e) {
  const in_device here;
  return told(mock().event_query(reinterpret_cast<abi::event>(e)));
}
LCI_FAKE hipError_t hipMemcpyAsync(void* to, const void* from, size_t size, hipMemcpyKind kind,
                                   hipStream_t s) {
  if (kind != hipMemcpyDefault) return told(hipErrorInvalidMemcpyDirection);
  return in_stream(s, [&](abi::stream ours) {
    return mock().memcpy_async(address(to), address(from), size, ours);
  });
}

}  // extern "C"
