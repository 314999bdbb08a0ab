// Which entry points we ask the driver for, and in which form. A version is that of the CUDA
// release that introduced the signature in abi.hpp, not the newest one: asking for more than the
// driver has is refused.
#include <array>

#include "backends/cuda/driver.hpp"

namespace lci::cuda {
namespace {

constexpr bool REQUIRED = true;
constexpr bool OPTIONAL = false;

using f = abi::functions;
constexpr std::array TABLE{
    entry_point{"cuInit", 2000, REQUIRED, offsetof(f, init)},
    entry_point{"cuDriverGetVersion", 2020, REQUIRED, offsetof(f, driver_get_version)},
    entry_point{"cuGetErrorName", 6000, REQUIRED, offsetof(f, get_error_name)},
    entry_point{"cuGetErrorString", 6000, REQUIRED, offsetof(f, get_error_string)},
    entry_point{"cuDeviceGetCount", 2000, REQUIRED, offsetof(f, device_get_count)},
    entry_point{"cuDeviceGet", 2000, REQUIRED, offsetof(f, device_get)},
    entry_point{"cuDeviceGetName", 2000, REQUIRED, offsetof(f, device_get_name)},
    entry_point{"cuDeviceGetPCIBusId", 4010, REQUIRED, offsetof(f, device_get_pci_bus_id)},
    entry_point{"cuDeviceGetAttribute", 2000, REQUIRED, offsetof(f, device_get_attribute)},
    entry_point{"cuDeviceCanAccessPeer", 4000, REQUIRED, offsetof(f, device_can_access_peer)},
    entry_point{"cuDevicePrimaryCtxRetain", 7000, REQUIRED, offsetof(f, primary_ctx_retain)},
    entry_point{"cuDevicePrimaryCtxRelease", 11000, REQUIRED, offsetof(f, primary_ctx_release)},
    entry_point{"cuCtxPushCurrent", 4000, REQUIRED, offsetof(f, ctx_push_current)},
    entry_point{"cuCtxPopCurrent", 4000, REQUIRED, offsetof(f, ctx_pop_current)},
    entry_point{"cuCtxEnablePeerAccess", 4000, REQUIRED, offsetof(f, ctx_enable_peer_access)},
    entry_point{"cuThreadExchangeStreamCaptureMode", 10010, REQUIRED,
                offsetof(f, exchange_stream_capture_mode)},
    entry_point{"cuPointerGetAttributes", 7000, REQUIRED, offsetof(f, pointer_get_attributes)},
    entry_point{"cuPointerSetAttribute", 6000, REQUIRED, offsetof(f, pointer_set_attribute)},
    entry_point{"cuMemGetAddressRange", 3020, REQUIRED, offsetof(f, mem_get_address_range)},
    entry_point{"cuMemHostAlloc", 2020, REQUIRED, offsetof(f, mem_host_alloc)},
    entry_point{"cuMemFreeHost", 2000, REQUIRED, offsetof(f, mem_free_host)},
    entry_point{"cuMemHostRegister", 6050, REQUIRED, offsetof(f, mem_host_register)},
    entry_point{"cuMemHostUnregister", 4000, REQUIRED, offsetof(f, mem_host_unregister)},
    entry_point{"cuMemHostGetDevicePointer", 3020, REQUIRED,
                offsetof(f, mem_host_get_device_pointer)},
    entry_point{"cuIpcGetMemHandle", 4010, REQUIRED, offsetof(f, ipc_get_mem_handle)},
    entry_point{"cuIpcOpenMemHandle", 11000, REQUIRED, offsetof(f, ipc_open_mem_handle)},
    entry_point{"cuIpcCloseMemHandle", 4010, REQUIRED, offsetof(f, ipc_close_mem_handle)},
    entry_point{"cuMemRetainAllocationHandle", 11000, REQUIRED,
                offsetof(f, mem_retain_allocation_handle)},
    entry_point{"cuMemExportToShareableHandle", 10020, REQUIRED,
                offsetof(f, mem_export_to_shareable_handle)},
    entry_point{"cuMemImportFromShareableHandle", 10020, REQUIRED,
                offsetof(f, mem_import_from_shareable_handle)},
    entry_point{"cuMemGetAllocationGranularity", 10020, REQUIRED,
                offsetof(f, mem_get_allocation_granularity)},
    entry_point{"cuMemAddressReserve", 10020, REQUIRED, offsetof(f, mem_address_reserve)},
    entry_point{"cuMemAddressFree", 10020, REQUIRED, offsetof(f, mem_address_free)},
    entry_point{"cuMemMap", 10020, REQUIRED, offsetof(f, mem_map)},
    entry_point{"cuMemUnmap", 10020, REQUIRED, offsetof(f, mem_unmap)},
    entry_point{"cuMemSetAccess", 10020, REQUIRED, offsetof(f, mem_set_access)},
    entry_point{"cuMemRelease", 10020, REQUIRED, offsetof(f, mem_release)},
    entry_point{"cuMemGetHandleForAddressRange", 11070, OPTIONAL,
                offsetof(f, mem_get_handle_for_address_range)},
    entry_point{"cuStreamCreate", 2000, REQUIRED, offsetof(f, stream_create)},
    entry_point{"cuStreamDestroy", 4000, REQUIRED, offsetof(f, stream_destroy)},
    entry_point{"cuStreamQuery", 2000, REQUIRED, offsetof(f, stream_query)},
    entry_point{"cuStreamWaitEvent", 3020, REQUIRED, offsetof(f, stream_wait_event)},
    // Older forms of these two are switched off by default; without them flags are written by
    // other means, see copier.hpp.
    entry_point{"cuStreamWriteValue32", 11070, OPTIONAL, offsetof(f, stream_write_value_32)},
    entry_point{"cuStreamWriteValue64", 11070, OPTIONAL, offsetof(f, stream_write_value_64)},
    entry_point{"cuEventCreate", 2000, REQUIRED, offsetof(f, event_create)},
    entry_point{"cuEventDestroy", 4000, REQUIRED, offsetof(f, event_destroy)},
    entry_point{"cuEventRecord", 2000, REQUIRED, offsetof(f, event_record)},
    entry_point{"cuEventQuery", 2000, REQUIRED, offsetof(f, event_query)},
    entry_point{"cuMemcpyAsync", 4000, REQUIRED, offsetof(f, memcpy_async)},
    // The form of CUDA 12.8 has one more parameter; we do without a batch there.
    entry_point{"cuMemcpyBatchAsync", 13000, OPTIONAL, offsetof(f, memcpy_batch_async)},
};

constexpr bool covers_every_member() {
  for (std::size_t i = 0; i < TABLE.size(); ++i) {
    if (TABLE[i].slot != i * sizeof(void (*)())) return false;
  }
  return TABLE.size() * sizeof(void (*)()) == sizeof(abi::functions);
}
static_assert(covers_every_member(), "one row per member of abi::functions, in their order");

}  // namespace

std::span<const entry_point> entry_points() noexcept { return TABLE; }

}  // namespace lci::cuda
