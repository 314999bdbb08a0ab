// The CUDA driver's binary interface as far as we use it, declared by hand: the library is built
// the same with and without a CUDA toolkit. Names follow the driver's, without prefix and in lower
// case. Callers: backends/cuda and the mock driver of the tests. Threads: types only.
// Always true: sizes, values and signatures are those of cuda.h; tests/unit/cuda/abi_test.cpp
// compares them wherever that header is found.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lci::cuda::abi {

using device = int;
using device_ptr = unsigned long long;  // an address in the unified address space
using allocation_handle = unsigned long long;

struct context_st;
struct stream_st;
struct event_st;
struct pool_st;
struct module_st;
struct function_st;
using context = context_st*;
using stream = stream_st*;
using event = event_st*;
using memory_pool = pool_st*;
using code_module = module_st*;  // device code in a context
using function = function_st*;

enum class result : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  stub_library = 34,
  no_device = 100,
  invalid_device = 101,
  invalid_context = 201,
  map_failed = 205,
  already_mapped = 208,
  not_mapped = 211,
  peer_access_unsupported = 217,
  operating_system = 304,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  peer_access_already_enabled = 704,
  context_is_destroyed = 709,
  host_memory_already_registered = 712,
  host_memory_not_registered = 713,
  launch_failed = 719,
  not_permitted = 800,
  not_supported = 801,
  system_driver_mismatch = 803,
  stream_capture_unsupported = 900,
  stream_capture_invalidated = 901,
  stream_capture_implicit = 906,
  unknown = 999
};

enum class device_attribute : int {
  async_engine_count = 40,
  unified_addressing = 41,
  virtual_memory_management_supported = 102,
  handle_type_posix_file_descriptor_supported = 103,
  gpu_direct_rdma_supported = 116,
  can_use_64_bit_stream_mem_ops = 122,
  dma_buf_supported = 124,
  handle_type_fabric_supported = 128
};

enum class pointer_attribute : int {
  owner_context = 1,
  memory_type = 2,
  device_pointer = 3,
  host_pointer = 4,
  sync_memops = 6,
  buffer_id = 7,
  is_managed = 8,
  device_ordinal = 9,
  is_legacy_ipc_capable = 10,
  range_start_addr = 11,
  range_size = 12,
  mapped = 13,
  allowed_handle_types = 14,
  is_gpu_direct_rdma_capable = 15,
  mempool_handle = 17,
  memory_block_id = 20
};

// What pointer_attribute::memory_type yields, as an unsigned int; 0 for a plain host pointer.
enum class memory_type : unsigned { none = 0, host = 1, gpu = 2, array = 3, unified = 4 };

enum class capture_mode : int { global = 0, thread_local_ = 1, relaxed = 2 };
enum class capture_status : int { none = 0, active = 1, invalidated = 2 };
enum class proc_address_status : int { success = 0, symbol_not_found = 1, version_too_low = 2 };
enum class handle_type : int { none = 0, posix_file_descriptor = 1, fabric = 8 };
constexpr handle_type operator|(handle_type a, handle_type b) noexcept {
  return static_cast<handle_type>(static_cast<int>(a) | static_cast<int>(b));
}
enum class flush_target : int { current_context = 0 };
enum class flush_scope : int { to_owner = 100, to_all_devices = 200 };
enum class range_handle_type : int { dma_buf_fd = 1 };
enum class granularity : int { minimum = 0, recommended = 1 };
enum class allocation_type : int { invalid = 0, pinned = 1 };
enum class p2p_attribute : int { native_atomic_supported = 3 };
enum class function_attribute : int { max_threads_per_block = 0 };
enum class location_type : int { invalid = 0, gpu = 1, host = 2, host_numa = 3 };
enum class access_flags : int { none = 0, read = 1, read_write = 3 };
enum class source_order : int { invalid = 0, stream_order = 1, during_call = 2, any = 3 };

inline constexpr unsigned long long PROC_ADDRESS_DEFAULT = 0;
inline constexpr unsigned STREAM_NON_BLOCKING = 1;
inline constexpr unsigned EVENT_DISABLE_TIMING = 2;
inline constexpr unsigned HOST_ALLOC_PORTABLE = 1;
inline constexpr unsigned HOST_ALLOC_DEVICE_MAP = 2;
inline constexpr unsigned HOST_REGISTER_PORTABLE = 1;
inline constexpr unsigned HOST_REGISTER_DEVICE_MAP = 2;
inline constexpr unsigned HOST_REGISTER_IO_MEMORY = 4;
inline constexpr unsigned IPC_LAZY_ENABLE_PEER_ACCESS = 1;
inline constexpr unsigned WRITE_VALUE_DEFAULT = 0;  // earlier work of the stream is visible first
inline constexpr unsigned WAIT_VALUE_EQUAL = 1;
inline constexpr unsigned long long DMA_BUF_MAPPING_PCIE = 1;

struct ipc_mem_handle {
  char reserved[64];
};

struct location {
  location_type type;
  int id;  // device ordinal, or NUMA node
};

struct access_desc {
  location where;
  access_flags flags;
};

struct allocation_prop {
  allocation_type type;
  handle_type requested_handle_types;
  location where;
  void* win32_handle_metadata;
  struct {
    unsigned char compression_type;
    unsigned char gpu_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};

struct memcpy_attributes {
  source_order order;
  location source_hint;
  location destination_hint;
  unsigned flags;
};

// Rows of bytes: CUDA_MEMCPY2D of cuda.h.
struct memcpy_side {
  std::size_t x_bytes = 0;
  std::size_t y = 0;
  memory_type type = memory_type::none;
  void* host = nullptr;  // the address, or the next one, as `type` says
  device_ptr address = 0;
  void* array = nullptr;
  std::size_t pitch = 0;
};
struct memcpy_2d {
  memcpy_side from;
  memcpy_side to;
  std::size_t width_bytes = 0;
  std::size_t height = 0;
};

// One element of what the driver takes as a union of 48 bytes: a word that the stream writes or
// waits for; both have the same members.
enum class memory_operation : int { write_value_32 = 2, wait_value_64 = 4, write_value_64 = 5 };
struct word_operation {
  memory_operation what;
  device_ptr address;
  std::uint64_t value;  // 32 bits: the low half
  unsigned flags;       // as of cuStreamWriteValue32 or cuStreamWaitValue64
  device_ptr alias;     // the driver's
  std::uint64_t unused;
};

// The two exported forms of cuGetProcAddress: the second since CUDA 12.0.
using get_proc_address_v1 = result (*)(const char* symbol, void** function, int version,
                                       unsigned long long flags);
using get_proc_address_v2 = result (*)(const char* symbol, void** function, int version,
                                       unsigned long long flags, proc_address_status* status);

// Every entry point that we call. Each member is a pointer, so that the table in driver_table.cpp
// can list them by their place.
struct functions {
  // process and devices
  result (*init)(unsigned flags);
  result (*driver_get_version)(int* version);
  result (*get_error_name)(result error, const char** text);
  result (*get_error_string)(result error, const char** text);
  result (*device_get_count)(int* count);
  result (*device_get)(device* gpu, int ordinal);
  result (*device_get_name)(char* name, int length, device gpu);
  result (*device_get_pci_bus_id)(char* text, int length, device gpu);
  result (*device_get_attribute)(int* value, device_attribute what, device gpu);
  result (*device_can_access_peer)(int* can, device gpu, device peer);
  result (*device_get_p2p_attribute)(int* value, p2p_attribute which, device gpu, device peer);
  // contexts
  result (*primary_ctx_retain)(context* ctx, device gpu);
  result (*primary_ctx_release)(device gpu);
  result (*ctx_push_current)(context ctx);
  result (*ctx_pop_current)(context* ctx);
  result (*ctx_get_device)(device* gpu);
  result (*ctx_enable_peer_access)(context peer, unsigned flags);
  result (*ctx_synchronize)();
  result (*flush_gpu_direct_rdma_writes)(flush_target target, flush_scope scope);
  result (*exchange_stream_capture_mode)(capture_mode* mode);
  // pointers
  result (*pointer_get_attributes)(unsigned count, pointer_attribute* attributes, void** data,
                                   device_ptr pointer);
  result (*pointer_get_attribute)(void* data, pointer_attribute what, device_ptr pointer);
  result (*pointer_set_attribute)(const void* value, pointer_attribute what, device_ptr pointer);
  result (*mem_get_address_range)(device_ptr* base, std::size_t* size, device_ptr pointer);
  result (*mem_alloc)(device_ptr* memory, std::size_t size);
  result (*mem_free)(device_ptr memory);
  result (*mem_host_alloc)(void** host, std::size_t size, unsigned flags);
  result (*mem_free_host)(void* host);
  result (*mem_host_register)(void* host, std::size_t size, unsigned flags);
  result (*mem_host_unregister)(void* host);
  result (*mem_host_get_device_pointer)(device_ptr* pointer, void* host, unsigned flags);
  // sharing
  result (*ipc_get_mem_handle)(ipc_mem_handle* handle, device_ptr pointer);
  result (*ipc_open_mem_handle)(device_ptr* pointer, ipc_mem_handle handle, unsigned flags);
  result (*ipc_close_mem_handle)(device_ptr pointer);
  result (*mem_create)(allocation_handle* handle, std::size_t size, const allocation_prop* prop,
                       unsigned long long flags);
  result (*mem_retain_allocation_handle)(allocation_handle* handle, void* address);
  result (*mem_export_to_shareable_handle)(void* out, allocation_handle handle, handle_type type,
                                           unsigned long long flags);
  result (*mem_import_from_shareable_handle)(allocation_handle* handle, void* os_handle,
                                             handle_type type);
  result (*mem_get_allocation_granularity)(std::size_t* bytes, const allocation_prop* prop,
                                           granularity option);
  result (*mem_address_reserve)(device_ptr* pointer, std::size_t size, std::size_t alignment,
                                device_ptr wanted, unsigned long long flags);
  result (*mem_address_free)(device_ptr pointer, std::size_t size);
  result (*mem_map)(device_ptr pointer, std::size_t size, std::size_t offset,
                    allocation_handle handle, unsigned long long flags);
  result (*mem_unmap)(device_ptr pointer, std::size_t size);
  result (*mem_set_access)(device_ptr pointer, std::size_t size, const access_desc* descriptions,
                           std::size_t count);
  result (*mem_release)(allocation_handle handle);
  result (*mem_get_handle_for_address_range)(void* handle, device_ptr pointer, std::size_t size,
                                             range_handle_type type, unsigned long long flags);
  // streams, events, copies
  result (*stream_create)(stream* out, unsigned flags);
  result (*stream_destroy)(stream s);
  result (*stream_query)(stream s);
  result (*stream_get_ctx)(stream s, context* ctx);
  result (*stream_is_capturing)(stream s, capture_status* status);
  result (*stream_wait_event)(stream s, event e, unsigned flags);
  result (*stream_write_value_32)(stream s, device_ptr address, std::uint32_t value,
                                  unsigned flags);
  result (*stream_write_value_64)(stream s, device_ptr address, std::uint64_t value,
                                  unsigned flags);
  result (*stream_batch_mem_op)(stream s, unsigned count, word_operation* operations,
                                unsigned flags);
  result (*event_create)(event* out, unsigned flags);
  result (*event_destroy)(event e);
  result (*event_record)(event e, stream s);
  result (*event_query)(event e);
  result (*memcpy_async)(device_ptr to, device_ptr from, std::size_t size, stream s);
  result (*memcpy_2d_async)(const memcpy_2d* what, stream s);
  result (*memcpy_batch_async)(device_ptr* to, device_ptr* from, std::size_t* sizes,
                               std::size_t count, memcpy_attributes* attributes,
                               std::size_t* attribute_indices, std::size_t attribute_count,
                               stream s);
  // device code
  result (*module_load_data)(code_module* module, const void* image);
  result (*module_unload)(code_module module);
  result (*module_get_function)(function* out, code_module module, const char* name);
  result (*func_get_attribute)(int* value, function_attribute what, function f);
  result (*launch_kernel)(function f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned shared_bytes, stream s, void** arguments, void** extra);
};

}  // namespace lci::cuda::abi
