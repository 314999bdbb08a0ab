// Our declarations against cuda.h, where there is one. Nearly all of this happens at compile time.
#include "backends/cuda/abi.hpp"

#include <gtest/gtest.h>

#include "backends/cuda/driver.hpp"

namespace lci::cuda {

TEST(entry_points, all__have_a_name_and_a_version) {
  EXPECT_EQ(entry_points().size() * sizeof(void*), sizeof(abi::functions));
  for (const entry_point& row : entry_points()) {
    EXPECT_EQ(std::string(row.name).substr(0, 2), "cu");
    EXPECT_GE(row.version, 2000) << row.name;
    EXPECT_EQ(row.version % 10, 0) << row.name;
  }
}

}  // namespace lci::cuda

#ifndef LCI_HAVE_CUDA_H

TEST(abi, is_that_of_cuda_h) { GTEST_SKIP() << "no cuda.h here"; }

#else

#include <cuda.h>
#include <cudaTypedefs.h>

#include <type_traits>

namespace lci::cuda {
namespace {

// Same size, alignment and passing convention. What a pointer points to has to be alike too, except
// that handles are opaque on both sides.
template <class A, class B>
consteval bool is_alike() {
  using ours = std::remove_cv_t<A>;
  using theirs = std::remove_cv_t<B>;
  if constexpr (std::is_void_v<ours> || std::is_void_v<theirs>) {
    return std::is_void_v<ours> && std::is_void_v<theirs>;
  } else if constexpr (std::is_pointer_v<ours> && std::is_pointer_v<theirs>) {
    using a = std::remove_pointer_t<ours>;
    using b = std::remove_pointer_t<theirs>;
    if constexpr (std::is_const_v<a> != std::is_const_v<b>) {
      return false;
    } else if constexpr (
        requires { sizeof(a); } && requires { sizeof(b); }) {
      return is_alike<a, b>();
    } else {
      return std::is_void_v<a> == std::is_void_v<b>;
    }
  } else if constexpr ((std::is_integral_v<ours> || std::is_enum_v<ours>)&&(
                           std::is_integral_v<theirs> || std::is_enum_v<theirs>)) {
    return sizeof(ours) == sizeof(theirs) && alignof(ours) == alignof(theirs);
  } else if constexpr (std::is_class_v<ours> &&
                       (std::is_class_v<theirs> || std::is_union_v<theirs>)) {
    return sizeof(ours) == sizeof(theirs) && alignof(ours) == alignof(theirs) &&
           std::is_trivially_copyable_v<ours>;
  } else {
    return std::is_same_v<ours, theirs>;
  }
}

template <class A, class B>
struct alike_functions : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct alike_functions<R (*)(A...), S (*)(B...)>
    : std::bool_constant<is_alike<R, S>() && (is_alike<A, B>() && ...)> {
};

// The comparison itself can say no.
static_assert(!is_alike<int, long>());
static_assert(!is_alike<int*, const int*>());
static_assert(!is_alike<int*, long*>());
static_assert(!is_alike<unsigned long long, void*>());
static_assert(!alike_functions<void (*)(int), void (*)(int, int)>::value);
static_assert(!alike_functions<void (*)(int), void (*)(long)>::value);

bool is_listed(std::string_view name, int version, std::size_t slot) {
  for (const entry_point& row : entry_points()) {
    if (row.slot == slot) {
      EXPECT_EQ(row.name, name);
      EXPECT_EQ(row.version, version) << name;
      return true;
    }
  }
  return false;
}

// The signature, and that the version we ask for is the one of that form. The names are pasted, not
// expanded: cuda.h makes macros of some.
#define LINE(member, name, version)                                                                \
  static_assert(alike_functions<decltype(abi::functions::member), PFN_##name##_v##version>::value, \
                #name);                                                                            \
  EXPECT_TRUE(is_listed(#name, version, offsetof(abi::functions, member))) << #member;             \
  ++count;
TEST(abi, functions__are_those_of_cuda_h_in_the_version_asked_for) {
  int count = 0;
  LINE(init, cuInit, 2000)
  LINE(driver_get_version, cuDriverGetVersion, 2020)
  LINE(get_error_name, cuGetErrorName, 6000)
  LINE(get_error_string, cuGetErrorString, 6000)
  LINE(device_get_count, cuDeviceGetCount, 2000)
  LINE(device_get, cuDeviceGet, 2000)
  LINE(device_get_name, cuDeviceGetName, 2000)
  LINE(device_get_pci_bus_id, cuDeviceGetPCIBusId, 4010)
  LINE(device_get_attribute, cuDeviceGetAttribute, 2000)
  LINE(device_can_access_peer, cuDeviceCanAccessPeer, 4000)
  LINE(device_get_p2p_attribute, cuDeviceGetP2PAttribute, 8000)
  LINE(primary_ctx_retain, cuDevicePrimaryCtxRetain, 7000)
  LINE(primary_ctx_release, cuDevicePrimaryCtxRelease, 11000)
  LINE(ctx_push_current, cuCtxPushCurrent, 4000)
  LINE(ctx_pop_current, cuCtxPopCurrent, 4000)
  LINE(ctx_get_device, cuCtxGetDevice, 2000)
  LINE(ctx_enable_peer_access, cuCtxEnablePeerAccess, 4000)
  LINE(ctx_synchronize, cuCtxSynchronize, 2000)
  LINE(flush_gpu_direct_rdma_writes, cuFlushGPUDirectRDMAWrites, 11030)
  LINE(exchange_stream_capture_mode, cuThreadExchangeStreamCaptureMode, 10010)
  LINE(pointer_get_attributes, cuPointerGetAttributes, 7000)
  LINE(pointer_get_attribute, cuPointerGetAttribute, 4000)
  LINE(pointer_set_attribute, cuPointerSetAttribute, 6000)
  LINE(mem_get_address_range, cuMemGetAddressRange, 3020)
  LINE(mem_alloc, cuMemAlloc, 3020)
  LINE(mem_free, cuMemFree, 3020)
  LINE(mem_host_alloc, cuMemHostAlloc, 2020)
  LINE(mem_free_host, cuMemFreeHost, 2000)
  LINE(mem_host_register, cuMemHostRegister, 6050)
  LINE(mem_host_unregister, cuMemHostUnregister, 4000)
  LINE(mem_host_get_device_pointer, cuMemHostGetDevicePointer, 3020)
  LINE(ipc_get_mem_handle, cuIpcGetMemHandle, 4010)
  LINE(ipc_open_mem_handle, cuIpcOpenMemHandle, 11000)
  LINE(ipc_close_mem_handle, cuIpcCloseMemHandle, 4010)
  LINE(mem_create, cuMemCreate, 10020)
  LINE(mem_retain_allocation_handle, cuMemRetainAllocationHandle, 11000)
  LINE(mem_export_to_shareable_handle, cuMemExportToShareableHandle, 10020)
  LINE(mem_import_from_shareable_handle, cuMemImportFromShareableHandle, 10020)
  LINE(mem_get_allocation_granularity, cuMemGetAllocationGranularity, 10020)
  LINE(mem_address_reserve, cuMemAddressReserve, 10020)
  LINE(mem_address_free, cuMemAddressFree, 10020)
  LINE(mem_map, cuMemMap, 10020)
  LINE(mem_unmap, cuMemUnmap, 10020)
  LINE(mem_set_access, cuMemSetAccess, 10020)
  LINE(mem_release, cuMemRelease, 10020)
  LINE(mem_get_handle_for_address_range, cuMemGetHandleForAddressRange, 11070)
  LINE(stream_create, cuStreamCreate, 2000)
  LINE(stream_destroy, cuStreamDestroy, 4000)
  LINE(stream_query, cuStreamQuery, 2000)
  LINE(stream_get_ctx, cuStreamGetCtx, 9020)
  LINE(stream_is_capturing, cuStreamIsCapturing, 10000)
  LINE(stream_wait_event, cuStreamWaitEvent, 3020)
  LINE(stream_write_value_32, cuStreamWriteValue32, 11070)
  LINE(stream_write_value_64, cuStreamWriteValue64, 11070)
  LINE(stream_batch_mem_op, cuStreamBatchMemOp, 11070)
  LINE(event_create, cuEventCreate, 2000)
  LINE(event_destroy, cuEventDestroy, 4000)
  LINE(event_record, cuEventRecord, 2000)
  LINE(event_query, cuEventQuery, 2000)
  LINE(memcpy_async, cuMemcpyAsync, 4000)
  LINE(memcpy_2d_async, cuMemcpy2DAsync, 3020)
  LINE(module_load_data, cuModuleLoadData, 2000)
  LINE(module_unload, cuModuleUnload, 2000)
  LINE(module_get_function, cuModuleGetFunction, 2000)
  LINE(func_get_attribute, cuFuncGetAttribute, 2020)
  LINE(launch_kernel, cuLaunchKernel, 4000)
#if CUDA_VERSION >= 13000
  LINE(memcpy_batch_async, cuMemcpyBatchAsync, 13000)
#else
  ++count;
#endif
  EXPECT_EQ(count * sizeof(void*), sizeof(abi::functions));
}

static_assert(alike_functions<abi::get_proc_address_v1, PFN_cuGetProcAddress_v11030>::value);
static_assert(alike_functions<abi::get_proc_address_v2, PFN_cuGetProcAddress_v12000>::value);

#define SAME(ours, theirs) \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #theirs)

using r = abi::result;
SAME(r::success, CUDA_SUCCESS);
SAME(r::invalid_value, CUDA_ERROR_INVALID_VALUE);
SAME(r::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
SAME(r::not_initialized, CUDA_ERROR_NOT_INITIALIZED);
SAME(r::deinitialized, CUDA_ERROR_DEINITIALIZED);
SAME(r::stub_library, CUDA_ERROR_STUB_LIBRARY);
SAME(r::no_device, CUDA_ERROR_NO_DEVICE);
SAME(r::invalid_device, CUDA_ERROR_INVALID_DEVICE);
SAME(r::invalid_context, CUDA_ERROR_INVALID_CONTEXT);
SAME(r::map_failed, CUDA_ERROR_MAP_FAILED);
SAME(r::already_mapped, CUDA_ERROR_ALREADY_MAPPED);
SAME(r::not_mapped, CUDA_ERROR_NOT_MAPPED);
SAME(r::peer_access_unsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
SAME(r::operating_system, CUDA_ERROR_OPERATING_SYSTEM);
SAME(r::invalid_handle, CUDA_ERROR_INVALID_HANDLE);
SAME(r::not_found, CUDA_ERROR_NOT_FOUND);
SAME(r::not_ready, CUDA_ERROR_NOT_READY);
SAME(r::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(r::peer_access_already_enabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME(r::context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(r::host_memory_already_registered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
SAME(r::host_memory_not_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
SAME(r::launch_failed, CUDA_ERROR_LAUNCH_FAILED);
SAME(r::not_permitted, CUDA_ERROR_NOT_PERMITTED);
SAME(r::not_supported, CUDA_ERROR_NOT_SUPPORTED);
SAME(r::system_driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(r::stream_capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(r::stream_capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME(r::stream_capture_implicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME(r::unknown, CUDA_ERROR_UNKNOWN);

using of_device = abi::device_attribute;
SAME(of_device::async_engine_count, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
SAME(of_device::unified_addressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME(of_device::virtual_memory_management_supported,
     CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(of_device::handle_type_posix_file_descriptor_supported,
     CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME(of_device::gpu_direct_rdma_supported, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
SAME(of_device::can_use_64_bit_stream_mem_ops, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
SAME(of_device::dma_buf_supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
SAME(of_device::handle_type_fabric_supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);

using p = abi::pointer_attribute;
SAME(p::owner_context, CU_POINTER_ATTRIBUTE_CONTEXT);
SAME(p::memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(p::device_pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
SAME(p::host_pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER);
SAME(p::sync_memops, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
SAME(p::buffer_id, CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME(p::is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME(p::device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(p::is_legacy_ipc_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SAME(p::range_start_addr, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME(p::range_size, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME(p::mapped, CU_POINTER_ATTRIBUTE_MAPPED);
SAME(p::allowed_handle_types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
SAME(p::is_gpu_direct_rdma_capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE);
SAME(p::mempool_handle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
SAME(p::memory_block_id, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID);

SAME(abi::memory_type::host, CU_MEMORYTYPE_HOST);
SAME(abi::memory_type::gpu, CU_MEMORYTYPE_DEVICE);
SAME(abi::memory_type::array, CU_MEMORYTYPE_ARRAY);
SAME(abi::memory_type::unified, CU_MEMORYTYPE_UNIFIED);
SAME(abi::capture_mode::global, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME(abi::capture_mode::thread_local_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(abi::capture_mode::relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(abi::proc_address_status::symbol_not_found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME(abi::proc_address_status::version_too_low, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
SAME(abi::handle_type::posix_file_descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(abi::handle_type::fabric, CU_MEM_HANDLE_TYPE_FABRIC);
static_assert(sizeof(abi::ipc_mem_handle) == sizeof(CUmemFabricHandle));
SAME(abi::range_handle_type::dma_buf_fd, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
SAME(abi::granularity::minimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(abi::granularity::recommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(abi::allocation_type::pinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(abi::location_type::gpu, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(abi::location_type::host, CU_MEM_LOCATION_TYPE_HOST);
SAME(abi::location_type::host_numa, CU_MEM_LOCATION_TYPE_HOST_NUMA);
SAME(abi::access_flags::read, CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME(abi::access_flags::read_write, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(abi::PROC_ADDRESS_DEFAULT, CU_GET_PROC_ADDRESS_DEFAULT);
SAME(abi::STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(abi::EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(abi::HOST_ALLOC_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(abi::HOST_ALLOC_DEVICE_MAP, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(abi::HOST_REGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(abi::HOST_REGISTER_DEVICE_MAP, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(abi::HOST_REGISTER_IO_MEMORY, CU_MEMHOSTREGISTER_IOMEMORY);
SAME(abi::IPC_LAZY_ENABLE_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME(abi::function_attribute::max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(abi::memory_operation::write_value_32, CU_STREAM_MEM_OP_WRITE_VALUE_32);
SAME(abi::memory_operation::wait_value_64, CU_STREAM_MEM_OP_WAIT_VALUE_64);
SAME(abi::memory_operation::write_value_64, CU_STREAM_MEM_OP_WRITE_VALUE_64);
SAME(abi::WRITE_VALUE_DEFAULT, CU_STREAM_WRITE_VALUE_DEFAULT);
SAME(abi::WAIT_VALUE_EQUAL, CU_STREAM_WAIT_VALUE_EQ);
SAME(abi::capture_status::none, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(abi::capture_status::active, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(abi::capture_status::invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
#if CUDA_VERSION >= 12080
SAME(abi::source_order::stream_order, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
SAME(abi::source_order::during_call, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
SAME(abi::source_order::any, CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
SAME(abi::DMA_BUF_MAPPING_PCIE, CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE);
static_assert(sizeof(abi::memcpy_attributes) == sizeof(CUmemcpyAttributes));
static_assert(offsetof(abi::memcpy_attributes, destination_hint) ==
              offsetof(CUmemcpyAttributes, dstLocHint));
static_assert(offsetof(abi::memcpy_attributes, flags) == offsetof(CUmemcpyAttributes, flags));
#endif

#define MEMCPY_SIDE(ours, theirs)                                                                \
  static_assert(offsetof(abi::memcpy_2d, ours.x_bytes) ==                                        \
                offsetof(CUDA_MEMCPY2D, theirs##XInBytes));                                      \
  static_assert(offsetof(abi::memcpy_2d, ours.y) == offsetof(CUDA_MEMCPY2D, theirs##Y));         \
  static_assert(offsetof(abi::memcpy_2d, ours.type) ==                                           \
                offsetof(CUDA_MEMCPY2D, theirs##MemoryType));                                    \
  static_assert(offsetof(abi::memcpy_2d, ours.host) == offsetof(CUDA_MEMCPY2D, theirs##Host));   \
  static_assert(offsetof(abi::memcpy_2d, ours.address) ==                                        \
                offsetof(CUDA_MEMCPY2D, theirs##Device));                                        \
  static_assert(offsetof(abi::memcpy_2d, ours.array) == offsetof(CUDA_MEMCPY2D, theirs##Array)); \
  static_assert(offsetof(abi::memcpy_2d, ours.pitch) == offsetof(CUDA_MEMCPY2D, theirs##Pitch))
MEMCPY_SIDE(from, src);
MEMCPY_SIDE(to, dst);
static_assert(offsetof(abi::memcpy_2d, width_bytes) == offsetof(CUDA_MEMCPY2D, WidthInBytes));
static_assert(offsetof(abi::memcpy_2d, height) == offsetof(CUDA_MEMCPY2D, Height));

static_assert(sizeof(abi::word_operation) == sizeof(CUstreamBatchMemOpParams));
static_assert(offsetof(abi::word_operation, address) ==
              offsetof(CUstreamBatchMemOpParams, writeValue.address));
static_assert(offsetof(abi::word_operation, value) ==
              offsetof(CUstreamBatchMemOpParams, writeValue.value64));
static_assert(offsetof(abi::word_operation, value) ==
              offsetof(CUstreamBatchMemOpParams, writeValue.value));
static_assert(offsetof(abi::word_operation, flags) ==
              offsetof(CUstreamBatchMemOpParams, writeValue.flags));
static_assert(offsetof(abi::word_operation, alias) ==
              offsetof(CUstreamBatchMemOpParams, writeValue.alias));
static_assert(offsetof(abi::word_operation, address) ==
              offsetof(CUstreamBatchMemOpParams, waitValue.address));
static_assert(offsetof(abi::word_operation, value) ==
              offsetof(CUstreamBatchMemOpParams, waitValue.value64));
static_assert(offsetof(abi::word_operation, flags) ==
              offsetof(CUstreamBatchMemOpParams, waitValue.flags));
static_assert(sizeof(abi::device) == sizeof(CUdevice));
static_assert(std::is_same_v<abi::device_ptr, CUdeviceptr>);
static_assert(std::is_same_v<abi::allocation_handle, CUmemGenericAllocationHandle>);
static_assert(sizeof(abi::ipc_mem_handle) == sizeof(CUipcMemHandle));
static_assert(offsetof(abi::access_desc, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(offsetof(abi::allocation_prop, where) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(abi::allocation_prop, win32_handle_metadata) ==
              offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(offsetof(abi::allocation_prop, flags) == offsetof(CUmemAllocationProp, allocFlags));

}  // namespace
}  // namespace lci::cuda

#endif
