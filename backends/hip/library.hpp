// The functions of libamdhip64 that we call, with the signatures of the header that this is
// compiled with. Callers: driver.cpp. Threads: filled once, before the first call; then shared.
#pragma once

#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1  // the header wants to know
#endif
#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <string>

namespace lci::hip {

struct library {
  decltype(&hipInit) init;
  decltype(&hipDriverGetVersion) driver_get_version;
  decltype(&hipGetErrorName) get_error_name;
  decltype(&hipGetErrorString) get_error_string;
  decltype(&hipGetLastError) get_last_error;
  decltype(&hipGetDeviceCount) get_device_count;
  decltype(&hipGetDevice) get_device;
  decltype(&hipSetDevice) set_device;
  decltype(&hipDeviceGetName) device_get_name;
  decltype(&hipDeviceGetPCIBusId) device_get_pci_bus_id;
  decltype(&hipDeviceGetAttribute) device_get_attribute;
  decltype(&hipDeviceCanAccessPeer) device_can_access_peer;
  decltype(&hipDeviceEnablePeerAccess) device_enable_peer_access;
  decltype(&hipThreadExchangeStreamCaptureMode) exchange_stream_capture_mode;
  decltype(&hipPointerGetAttributes) pointer_get_attributes;
  decltype(&hipPointerGetAttribute) pointer_get_attribute;
  decltype(&hipMemGetAddressRange) mem_get_address_range;
  // These two are overloaded by templates.
  hipError_t (*mem_alloc)(void** memory, std::size_t size);
  hipError_t (*host_malloc)(void** memory, std::size_t size, unsigned flags);
  decltype(&hipFree) mem_free;
  decltype(&hipHostFree) host_free;
  decltype(&hipHostRegister) host_register;
  decltype(&hipHostUnregister) host_unregister;
  decltype(&hipHostGetDevicePointer) host_get_device_pointer;
  decltype(&hipIpcGetMemHandle) ipc_get_mem_handle;
  decltype(&hipIpcOpenMemHandle) ipc_open_mem_handle;
  decltype(&hipIpcCloseMemHandle) ipc_close_mem_handle;
  decltype(&hipStreamCreateWithFlags) stream_create;
  decltype(&hipStreamDestroy) stream_destroy;
  decltype(&hipStreamQuery) stream_query;
  decltype(&hipStreamIsCapturing) stream_is_capturing;
  decltype(&hipGetStreamDeviceId) get_stream_device_id;
  decltype(&hipStreamWaitEvent) stream_wait_event;
  decltype(&hipStreamWriteValue32) stream_write_value_32;
  decltype(&hipStreamWriteValue64) stream_write_value_64;
  decltype(&hipEventCreateWithFlags) event_create;
  decltype(&hipEventDestroy) event_destroy;
  decltype(&hipEventRecord) event_record;
  decltype(&hipEventQuery) event_query;
  decltype(&hipMemcpyAsync) memcpy_async;
};

// The one of the process, which resolve_library() fills.
const library& call() noexcept;
// The first function that the loaded library lacks, or nothing.
std::string resolve_library(void* loaded);

}  // namespace lci::hip
