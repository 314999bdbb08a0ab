/// @file attr.hpp
/// Attributes of every resource.
///
/// The `*_settings_t` structs hold what a program can set: with an option of `alloc_*_x`, with
/// set_g_default_attr(), or with the environment variable `LCI_ATTR_<NAME>`. A resource's
/// `*_attr_t` adds read-only attributes. `global_attr_t` inherits all settings, so defaults,
/// options and attributes always agree. After the allocation attributes return the effective
/// values.
///
/// `for_each(f)` calls `f("name", member)` for every setting that the environment can set.
#ifndef LCI_ATTR_HPP
#define LCI_ATTR_HPP

#include <string>

#include "lci/export.hpp"
#include "lci/types.hpp"
#include "lci/version.hpp"

namespace lci {

/// Name of resources without a name: "unnamed".
extern LCI_PUBLIC const char* DEFAULT_NAME;

namespace detail {
/// A default, unless the build allows less.
constexpr size_t at_most(size_t wanted, size_t most) { return wanted < most ? wanted : most; }
}  // namespace detail

/// Fields of every resource: stored by pointer, never copied, never freed.
struct named_attr_t {
  const char* name = "unnamed";  ///< for messages
  void* user_context = nullptr;  ///< for the program
};

/// Settings of a runtime.
struct runtime_settings_t {
  /// Accepted, without effect: a packet always returns to the stock of the thread that frees it,
  /// which costs no shared cache line, however full the stock is.
  size_t packet_return_threshold = 4096;
  int imm_nbits_tag = 16;    ///< tag bits in the 32-bit immediate word, 0..31
  int imm_nbits_rcomp = 15;  ///< rcomp bits; the sum of the two is at most 31
  attr_rdv_protocol_t rdv_protocol =
      attr_rdv_protocol_t::auto_select;  ///< how a rendezvous completes
  /// Blocks of a resident copy kernel on each GPU in use, which halves the latency of small copies,
  /// 0..64; 0: none. Needs a library with device code (LCI_USE_CUDA). It takes resources from the
  /// program's kernels and delays its cudaFree and similar calls: see docs/gpu.md.
  int gpu_resident = 0;
  /// Whether the CPU copies small messages from and to GPU memory, through gdrcopy.
  attr_gpu_gdrcopy_t gpu_gdrcopy = attr_gpu_gdrcopy_t::auto_select;
  /// Who serves the queues of GPU endpoints where no card can; costs nothing until there is an
  /// endpoint: docs/gpu-initiated.md.
  attr_gpu_proxy_t gpu_proxy = attr_gpu_proxy_t::off;
  /// Who executes the work requests of GPU endpoints. `automatic`: the highest tier that is usable.
  attr_gpu_tier_t gpu_tier = attr_gpu_tier_t::automatic;
  /// Maximum nesting depth of handlers whose progress runs other handlers, 1..32; further handlers
  /// wait until one of them returns: docs/threads.md.
  int max_handler_depth = 8;
  /// Seconds without any event after which a call that waits in a handler at the maximum depth ends
  /// with handler_depth_error, if it may wait for another handler or for a slow peer; 0: never. If
  /// no peer could end the wait, it ends after two seconds: docs/threads.md.
  int max_handler_wait_s = 3600;
  /// Which lost peers progress() reports; get_failed_ranks() returns all: docs/errors.md.
  attr_failure_notice_t failure_notice = attr_failure_notice_t::own;
  bool alloc_default_device = true;       ///< create a default device
  bool alloc_default_packet_pool = true;  ///< create a default packet pool
  /// Create a default matching engine, and the one for collectives.
  bool alloc_default_matching_engine = true;

  /// Visits the settings; see the file comment.
  /// @param f  called as `f("name", member)` for each
  template <class F>
  void for_each(F& f) {
    f("packet_return_threshold", packet_return_threshold);
    f("imm_nbits_tag", imm_nbits_tag);
    f("imm_nbits_rcomp", imm_nbits_rcomp);
    f("rdv_protocol", rdv_protocol);
    f("gpu_resident", gpu_resident);
    f("gpu_gdrcopy", gpu_gdrcopy);
    f("gpu_proxy", gpu_proxy);
    f("gpu_tier", gpu_tier);
    f("max_handler_depth", max_handler_depth);
    f("max_handler_wait_s", max_handler_wait_s);
    f("failure_notice", failure_notice);
    f("alloc_default_device", alloc_default_device);
    f("alloc_default_packet_pool", alloc_default_packet_pool);
    f("alloc_default_matching_engine", alloc_default_matching_engine);
  }
};

/// Settings of a packet pool.
struct packet_pool_settings_t {
  /// Bytes that a packet holds; of messages less if the network does, see get_max_bcopy_size. A
  /// pool rounds it up to whole cache lines, which is what it reads back.
  size_t packet_size = LCI_PACKET_SIZE_DEFAULT;
  size_t npackets =
      LCI_PACKET_NUM_DEFAULT;  ///< upper limit; the pool grows on demand. 0 is allowed

  /// Visits the settings; see the file comment.
  /// @param f  called as `f("name", member)` for each
  template <class F>
  void for_each(F& f) {
    f("packet_size", packet_size);
    f("npackets", npackets);
  }
};

/// Settings of a matching engine.
struct matching_engine_settings_t {
  /// `queue` searches linearly, `map` hashes.
  attr_matching_engine_type_t matching_engine_type = attr_matching_engine_type_t::map;

  /// Visits the settings; see the file comment.
  /// @param f  called as `f("name", member)` for each
  template <class F>
  void for_each(F& f) {
    f("matching_engine_type", matching_engine_type);
  }
};

/// Settings of completion objects.
struct comp_settings_t {
  int sync_threshold = 1;     ///< signals that make a synchronizer ready, at least 1
  bool zero_copy_am = false;  ///< deliver small active messages in their packet
  attr_cq_type_t cq_type = attr_cq_type_t::lcrq;  ///< data structure of a completion queue
  int cq_default_length = 65536;  ///< capacity of an `array_atomic` completion queue

  /// Visits the settings; see the file comment.
  /// @param f  called as `f("name", member)` for each
  template <class F>
  void for_each(F& f) {
    f("sync_threshold", sync_threshold);
    f("zero_copy_am", zero_copy_am);
    f("cq_type", cq_type);
    f("cq_default_length", cq_default_length);
  }
};

/// Settings of a net context.
struct net_context_settings_t {
  attr_backend_t backend = attr_backend_t::none;  ///< none: the first usable one
  std::string ofi_provider_name =
      LCI_OFI_PROVIDER_HINT_DEFAULT;  ///< libfabric provider; empty: any
  std::string device_name;            ///< NIC; empty: the best
  /// Largest single network operation in bytes; lowered to the limit of the device.
  size_t max_msg_size = LCI_USE_MAX_SINGLE_MESSAGE_SIZE_DEFAULT;
  size_t max_inject_size =
      64;                ///< largest inline operation in bytes; lowered to the limit of the device
  int ibv_gid_idx = -1;  ///< RoCE GID index; -1: choose
  bool ibv_force_gid_auto_select = false;  ///< choose a GID on InfiniBand too
  attr_ibv_odp_strategy_t ibv_odp_strategy = attr_ibv_odp_strategy_t::none;  ///< on-demand paging
  attr_ibv_prefetch_strategy_t ibv_prefetch_strategy =
      attr_ibv_prefetch_strategy_t::none;  ///< ODP prefetch
  bool use_dmabuf = true;                  ///< networks may register GPU memory with a dma-buf
  bool shm_single_copy = true;  ///< large messages inside a host may use the kernel's single copy
  bool shm_pipelined_copy = true;  ///< large messages inside a host may use a ring of buffers
  size_t shm_single_copy_min =
      0;  ///< bytes from which the single copy is always taken; 0: the way is chosen by measurement
  attr_gpu_path_t gpu_path = attr_gpu_path_t::auto_select;  ///< the path of GPU data
  /// Check every buffer of a post that names no memory kind, and refuse GPU memory: costs one
  /// driver query per post if CUDA is in use. Always on in debug builds.
  bool check_pointers = LCI_CHECK_POINTERS_DEFAULT;

  /// Visits the settings; see the file comment.
  /// @param f  called as `f("name", member)` for each
  template <class F>
  void for_each(F& f) {
    f("backend", backend);
    f("ofi_provider_name", ofi_provider_name);
    f("device_name", device_name);
    f("max_msg_size", max_msg_size);
    f("max_inject_size", max_inject_size);
    f("ibv_gid_idx", ibv_gid_idx);
    f("ibv_force_gid_auto_select", ibv_force_gid_auto_select);
    f("ibv_odp_strategy", ibv_odp_strategy);
    f("ibv_prefetch_strategy", ibv_prefetch_strategy);
    f("use_dmabuf", use_dmabuf);
    f("shm_single_copy", shm_single_copy);
    f("shm_pipelined_copy", shm_pipelined_copy);
    f("shm_single_copy_min", shm_single_copy_min);
    f("gpu_path", gpu_path);
    f("check_pointers", check_pointers);
  }
};

/// Settings of a device.
struct device_settings_t {
  size_t net_max_sends = LCI_BACKEND_MAX_SENDS_DEFAULT;  ///< send queue depth per peer
  size_t net_max_recvs =
      LCI_BACKEND_MAX_RECVS_DEFAULT;  ///< upper limit of receives posted to the network
  size_t net_max_cqes = LCI_BACKEND_MAX_CQES_DEFAULT;  ///< completion queue depth
  /// Fraction in [0,1) of the send queue that only messages of the protocols use (verbs).
  double net_send_reserved_pct = 0.25;
  uint64_t ofi_lock_mode = 0;  ///< bits of attr_net_lock_mode_t; environment: LCI_NET_LOCK_MODE
  bool alloc_default_endpoint = true;  ///< create a default endpoint
  /// Create one more endpoint. It carries nothing: progress sends through the device itself.
  bool alloc_progress_endpoint = false;
  /// Cache registrations: the value of the global default when the net context is opened. Another
  /// value for a device has no effect and is a warning; what is in force reads back.
  bool use_reg_cache = LCI_USE_REG_CACHE != 0;
  /// Shared memory for peers on the same host: the value of the global default when the net context
  /// is opened. Off for a device has no effect and is a warning; what is in force reads back.
  bool shm_enable = LCI_WITH_SHM != 0;
  /// Accepted, without effect: each pair of threads has its own lane of 128 slots, created at its
  /// first message, so there is no shared ring to size.
  size_t shm_ring_size = 65536;
  /// Accepted, without effect: slots have 128 bytes, two cache lines, which is the same in all
  /// processes. A multiple of the cache line.
  size_t shm_slot_size = 128 % LCI_CACHE_LINE == 0 ? 128 : LCI_CACHE_LINE;
  /// Accepted, without effect: a lane has one sender, so senders do not compete for a slot.
  size_t shm_producer_cas_attempts = 4;
  /// Accepted, without effect: a lane is polled by one thread at a time.
  size_t shm_consumer_cas_attempts = 1;
  /// Messages that one call of progress takes from peers on the same host, 1 to
  /// LCI_BACKEND_MAX_POLLS.
  size_t shm_max_polls = detail::at_most(32, LCI_BACKEND_MAX_POLLS);
  attr_ibv_td_strategy_t ibv_td_strategy =
      attr_ibv_td_strategy_t::per_qp;  ///< verbs thread domains

  /// Visits the settings; see the file comment.
  /// @param f  called as `f("name", member)` for each
  template <class F>
  void for_each(F& f) {
    f("net_max_sends", net_max_sends);
    f("net_max_recvs", net_max_recvs);
    f("net_max_cqes", net_max_cqes);
    f("net_send_reserved_pct", net_send_reserved_pct);
    f("ofi_lock_mode", ofi_lock_mode);
    f("alloc_default_endpoint", alloc_default_endpoint);
    f("alloc_progress_endpoint", alloc_progress_endpoint);
    f("use_reg_cache", use_reg_cache);
    f("shm_enable", shm_enable);
    f("shm_ring_size", shm_ring_size);
    f("shm_slot_size", shm_slot_size);
    f("shm_producer_cas_attempts", shm_producer_cas_attempts);
    f("shm_consumer_cas_attempts", shm_consumer_cas_attempts);
    f("shm_max_polls", shm_max_polls);
    f("ibv_td_strategy", ibv_td_strategy);
  }
};

/// Attributes of a runtime.
struct runtime_attr_t : runtime_settings_t, named_attr_t {
  uint64_t max_imm_tag =
      65535;  ///< largest tag of the fast path, and of a put with remote completion
  uint64_t max_imm_rcomp = 32767;  ///< largest rcomp of the fast path
  uint64_t max_tag =
      0x7fffffff;  ///< fits an `int`, because programs store it in one; larger tags also work
  uint64_t max_rcomp = 0xffffffff;  ///< largest rcomp
};

/// Attributes of a net context.
struct net_context_attr_t : net_context_settings_t, named_attr_t {
  bool support_putimm = false;  ///< the network supports write with immediate data
};

/// Attributes of a device.
struct device_attr_t : device_settings_t, named_attr_t {
  /// Number among the devices of this process, from 0, never reused; equal on ranks that allocate
  /// alike.
  int uid = -1;
};

/// Attributes of an endpoint.
struct endpoint_attr_t : named_attr_t {
  int uid = -1;  ///< number among the endpoints of this process, likewise
};

/// Attributes of a packet pool.
struct packet_pool_attr_t : packet_pool_settings_t, named_attr_t {};

/// Attributes of a matching engine.
struct matching_engine_attr_t : matching_engine_settings_t, named_attr_t {};

/// Attributes of a memory region.
struct mr_attr_t : named_attr_t {};

/// Attributes of a completion object.
struct comp_attr_t : comp_settings_t, named_attr_t {
  attr_comp_type_t comp_type = attr_comp_type_t::custom;  ///< its kind
  /// Serial number that distinguishes objects created by the library; 0 for user-defined objects.
  uint32_t serial = 0;
};

/// The defaults of all settings.
struct global_attr_t : runtime_settings_t,
                       packet_pool_settings_t,
                       matching_engine_settings_t,
                       comp_settings_t,
                       net_context_settings_t,
                       device_settings_t {
  /// Visits the settings; see the file comment.
  /// @param f  called as `f("name", member)` for each
  template <class F>
  void for_each(F& f) {
    runtime_settings_t::for_each(f);
    packet_pool_settings_t::for_each(f);
    matching_engine_settings_t::for_each(f);
    comp_settings_t::for_each(f);
    net_context_settings_t::for_each(f);
    device_settings_t::for_each(f);
  }
};

/// The current defaults. They have their built-in values until global_initialize() applies the
/// environment. Read and write them with get_g_default_attr() and set_g_default_attr().
extern LCI_PUBLIC global_attr_t g_default_attr;

/// The current defaults. Threads: not while another thread sets them.
/// @return a copy
LCI_PUBLIC global_attr_t get_g_default_attr();
/// Replaces the defaults that later allocations use. Threads: one at a time, while no thread
/// allocates.
/// @param attr  the new defaults
LCI_PUBLIC void set_g_default_attr(const global_attr_t& attr);

}  // namespace lci

#endif  // LCI_ATTR_HPP
