#include "backends/hip/library.hpp"

#include <dlfcn.h>

namespace lci::hip {
namespace {

library& the_one() noexcept {
  static constinit library one{};
  return one;
}

}  // namespace

const library& call() noexcept { return the_one(); }

std::string resolve_library(void* loaded) {
  std::string missing;
  const auto find = [&]<class Function>(const char* name, Function*& to) {
    to = reinterpret_cast<Function*>(dlsym(loaded, name));
    if (to == nullptr && missing.empty()) missing = name;
  };
  library& l = the_one();
  find("hipInit", l.init);
  find("hipDriverGetVersion", l.driver_get_version);
  find("hipGetErrorName", l.get_error_name);
  find("hipGetErrorString", l.get_error_string);
  find("hipGetLastError", l.get_last_error);
  find("hipGetDeviceCount", l.get_device_count);
  find("hipGetDevice", l.get_device);
  find("hipSetDevice", l.set_device);
  find("hipDeviceGetName", l.device_get_name);
  find("hipDeviceGetPCIBusId", l.device_get_pci_bus_id);
  find("hipDeviceGetAttribute", l.device_get_attribute);
  find("hipDeviceCanAccessPeer", l.device_can_access_peer);
  find("hipDeviceEnablePeerAccess", l.device_enable_peer_access);
  find("hipThreadExchangeStreamCaptureMode", l.exchange_stream_capture_mode);
  find("hipPointerGetAttributes", l.pointer_get_attributes);
  find("hipPointerGetAttribute", l.pointer_get_attribute);
  find("hipMemGetAddressRange", l.mem_get_address_range);
  find("hipMalloc", l.mem_alloc);
  find("hipHostMalloc", l.host_malloc);
  find("hipFree", l.mem_free);
  find("hipHostFree", l.host_free);
  find("hipHostRegister", l.host_register);
  find("hipHostUnregister", l.host_unregister);
  find("hipHostGetDevicePointer", l.host_get_device_pointer);
  find("hipIpcGetMemHandle", l.ipc_get_mem_handle);
  find("hipIpcOpenMemHandle", l.ipc_open_mem_handle);
  find("hipIpcCloseMemHandle", l.ipc_close_mem_handle);
  find("hipStreamCreateWithFlags", l.stream_create);
  find("hipStreamDestroy", l.stream_destroy);
  find("hipStreamQuery", l.stream_query);
  find("hipStreamIsCapturing", l.stream_is_capturing);
  find("hipGetStreamDeviceId", l.get_stream_device_id);
  find("hipStreamWaitEvent", l.stream_wait_event);
  find("hipStreamWriteValue32", l.stream_write_value_32);
  find("hipStreamWriteValue64", l.stream_write_value_64);
  find("hipEventCreateWithFlags", l.event_create);
  find("hipEventDestroy", l.event_destroy);
  find("hipEventRecord", l.event_record);
  find("hipEventQuery", l.event_query);
  find("hipMemcpyAsync", l.memcpy_async);
  return missing;
}

}  // namespace lci::hip
