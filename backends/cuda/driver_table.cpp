// Which entry points we ask the driver for, and in which form. A version is that of the CUDA
// release that introduced the signature in abi.hpp, not the newest one: asking for more than the
// driver has is refused.
#include <iterator>

#include "backends/cuda/driver.hpp"

namespace lci::cuda {
namespace {

constexpr bool REQUIRED = true;
constexpr bool OPTIONAL = false;

using f = abi::functions;
constexpr entry_point TABLE[] = {
    {"cuInit", 2000, REQUIRED, offsetof(f, init)},
    {"cuDriverGetVersion", 2020, REQUIRED, offsetof(f, driver_get_version)},
    {"cuGetErrorName", 6000, REQUIRED, offsetof(f, get_error_name)},
    {"cuGetErrorString", 6000, REQUIRED, offsetof(f, get_error_string)},
    {"cuDeviceGetCount", 2000, REQUIRED, offsetof(f, device_get_count)},
    {"cuDeviceGet", 2000, REQUIRED, offsetof(f, device_get)},
    {"cuDeviceGetName", 2000, REQUIRED, offsetof(f, device_get_name)},
    {"cuDeviceGetPCIBusId", 4010, REQUIRED, offsetof(f, device_get_pci_bus_id)},
    {"cuDeviceGetAttribute", 2000, REQUIRED, offsetof(f, device_get_attribute)},
    {"cuDeviceCanAccessPeer", 4000, REQUIRED, offsetof(f, device_can_access_peer)},
    {"cuDeviceGetP2PAttribute", 8000, OPTIONAL, offsetof(f, device_get_p2p_attribute)},
    {"cuDevicePrimaryCtxRetain", 7000, REQUIRED, offsetof(f, primary_ctx_retain)},
    {"cuDevicePrimaryCtxRelease", 11000, REQUIRED, offsetof(f, primary_ctx_release)},
    {"cuCtxPushCurrent", 4000, REQUIRED, offsetof(f, ctx_push_current)},
    {"cuCtxPopCurrent", 4000, REQUIRED, offsetof(f, ctx_pop_current)},
    {"cuCtxGetDevice", 2000, REQUIRED, offsetof(f, ctx_get_device)},
    {"cuCtxEnablePeerAccess", 4000, REQUIRED, offsetof(f, ctx_enable_peer_access)},
    {"cuCtxSynchronize", 2000, OPTIONAL, offsetof(f, ctx_synchronize)},
    {"cuFlushGPUDirectRDMAWrites", 11030, OPTIONAL, offsetof(f, flush_gpu_direct_rdma_writes)},
    {"cuThreadExchangeStreamCaptureMode", 10010, REQUIRED,
     offsetof(f, exchange_stream_capture_mode)},
    {"cuPointerGetAttributes", 7000, REQUIRED, offsetof(f, pointer_get_attributes)},
    {"cuPointerGetAttribute", 4000, REQUIRED, offsetof(f, pointer_get_attribute)},
    {"cuPointerSetAttribute", 6000, REQUIRED, offsetof(f, pointer_set_attribute)},
    {"cuMemGetAddressRange", 3020, REQUIRED, offsetof(f, mem_get_address_range)},
    {"cuMemAlloc", 3020, REQUIRED, offsetof(f, mem_alloc)},
    {"cuMemFree", 3020, REQUIRED, offsetof(f, mem_free)},
    {"cuMemHostAlloc", 2020, REQUIRED, offsetof(f, mem_host_alloc)},
    {"cuMemFreeHost", 2000, REQUIRED, offsetof(f, mem_free_host)},
    {"cuMemHostRegister", 6050, REQUIRED, offsetof(f, mem_host_register)},
    {"cuMemHostUnregister", 4000, REQUIRED, offsetof(f, mem_host_unregister)},
    {"cuMemHostGetDevicePointer", 3020, REQUIRED, offsetof(f, mem_host_get_device_pointer)},
    {"cuIpcGetMemHandle", 4010, REQUIRED, offsetof(f, ipc_get_mem_handle)},
    {"cuIpcOpenMemHandle", 11000, REQUIRED, offsetof(f, ipc_open_mem_handle)},
    {"cuIpcCloseMemHandle", 4010, REQUIRED, offsetof(f, ipc_close_mem_handle)},
    {"cuMemCreate", 10020, OPTIONAL, offsetof(f, mem_create)},
    {"cuMemRetainAllocationHandle", 11000, REQUIRED, offsetof(f, mem_retain_allocation_handle)},
    {"cuMemExportToShareableHandle", 10020, REQUIRED, offsetof(f, mem_export_to_shareable_handle)},
    {"cuMemImportFromShareableHandle", 10020, REQUIRED,
     offsetof(f, mem_import_from_shareable_handle)},
    {"cuMemGetAllocationGranularity", 10020, REQUIRED, offsetof(f, mem_get_allocation_granularity)},
    {"cuMemAddressReserve", 10020, REQUIRED, offsetof(f, mem_address_reserve)},
    {"cuMemAddressFree", 10020, REQUIRED, offsetof(f, mem_address_free)},
    {"cuMemMap", 10020, REQUIRED, offsetof(f, mem_map)},
    {"cuMemUnmap", 10020, REQUIRED, offsetof(f, mem_unmap)},
    {"cuMemSetAccess", 10020, REQUIRED, offsetof(f, mem_set_access)},
    {"cuMemRelease", 10020, REQUIRED, offsetof(f, mem_release)},
    {"cuMemGetHandleForAddressRange", 11070, OPTIONAL,
     offsetof(f, mem_get_handle_for_address_range)},
    {"cuStreamCreate", 2000, REQUIRED, offsetof(f, stream_create)},
    {"cuStreamDestroy", 4000, REQUIRED, offsetof(f, stream_destroy)},
    {"cuStreamQuery", 2000, REQUIRED, offsetof(f, stream_query)},
    {"cuStreamGetCtx", 9020, REQUIRED, offsetof(f, stream_get_ctx)},
    {"cuStreamIsCapturing", 10000, REQUIRED, offsetof(f, stream_is_capturing)},
    {"cuStreamWaitEvent", 3020, REQUIRED, offsetof(f, stream_wait_event)},
    // Older forms of these three are switched off by default; without them flags are written by
    // other means, see copier.hpp.
    {"cuStreamWriteValue32", 11070, OPTIONAL, offsetof(f, stream_write_value_32)},
    {"cuStreamWriteValue64", 11070, OPTIONAL, offsetof(f, stream_write_value_64)},
    {"cuStreamBatchMemOp", 11070, OPTIONAL, offsetof(f, stream_batch_mem_op)},
    {"cuEventCreate", 2000, REQUIRED, offsetof(f, event_create)},
    {"cuEventDestroy", 4000, REQUIRED, offsetof(f, event_destroy)},
    {"cuEventRecord", 2000, REQUIRED, offsetof(f, event_record)},
    {"cuEventQuery", 2000, REQUIRED, offsetof(f, event_query)},
    {"cuMemcpyAsync", 4000, REQUIRED, offsetof(f, memcpy_async)},
    {"cuMemcpy2DAsync", 3020, OPTIONAL, offsetof(f, memcpy_2d_async)},
    // The form of CUDA 12.8 has one more parameter; we do without a batch there.
    {"cuMemcpyBatchAsync", 13000, OPTIONAL, offsetof(f, memcpy_batch_async)},
    {"cuModuleLoadData", 2000, OPTIONAL, offsetof(f, module_load_data)},
    {"cuModuleUnload", 2000, OPTIONAL, offsetof(f, module_unload)},
    {"cuModuleGetFunction", 2000, OPTIONAL, offsetof(f, module_get_function)},
    {"cuFuncGetAttribute", 2020, OPTIONAL, offsetof(f, func_get_attribute)},
    {"cuLaunchKernel", 4000, OPTIONAL, offsetof(f, launch_kernel)},
};

constexpr bool covers_every_member() {
  for (std::size_t i = 0; i < std::size(TABLE); ++i) {
    if (TABLE[i].slot != i * sizeof(void (*)())) return false;
  }
  return std::size(TABLE) * sizeof(void (*)()) == sizeof(abi::functions);
}
static_assert(covers_every_member(), "one row per member of abi::functions, in their order");

}  // namespace

std::span<const entry_point> entry_points() noexcept { return TABLE; }

}  // namespace lci::cuda
