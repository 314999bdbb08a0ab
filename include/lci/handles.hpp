/// @file handles.hpp
/// The one-pointer handles of the library's objects, and the constants of their types.
///
/// A handle owns nothing: copies name the same object, and freeing through one copy empties only
/// that copy. Any thread may read attributes while no thread frees the object.
#ifndef LCI_HANDLES_HPP
#define LCI_HANDLES_HPP

#include <cstdint>
#include <stdexcept>
#include <string>

#include "lci/attr.hpp"
#include "lci/export.hpp"
#include "lci/types.hpp"

namespace lci {

class runtime_impl_t;
class net_context_impl_t;
class device_impl_t;
class endpoint_impl_t;
class packet_pool_impl_t;
class matching_engine_impl_t;
class mr_impl_t;
class comp_impl_t;

struct runtime_t;
struct net_context_t;
struct device_t;
struct endpoint_t;
struct packet_pool_t;
struct matching_engine_t;
struct mr_t;
struct comp_t;

namespace detail {

// Effective attributes of an object. Each throws std::runtime_error for an empty handle, and
// argument_error for a handle that the library recognizes as freed. The reference is valid until
// the object is freed.
LCI_PUBLIC const runtime_attr_t& attr_of(runtime_t runtime);
LCI_PUBLIC const net_context_attr_t& attr_of(net_context_t net_context);
LCI_PUBLIC const device_attr_t& attr_of(device_t device);
LCI_PUBLIC const endpoint_attr_t& attr_of(endpoint_t endpoint);
LCI_PUBLIC const packet_pool_attr_t& attr_of(packet_pool_t packet_pool);
LCI_PUBLIC const matching_engine_attr_t& attr_of(matching_engine_t matching_engine);
LCI_PUBLIC const mr_attr_t& attr_of(mr_t mr);
LCI_PUBLIC const comp_attr_t& attr_of(comp_t comp);

/// Base of all handles. `Reserved` is the largest pointer value that counts as empty: some types
/// assign a meaning to small integers.
template <class Handle, class Impl, class Attr, uintptr_t Reserved>
struct handle_base {
  typedef Attr attr_t;     ///< attribute struct of the object
  Impl* p_impl = nullptr;  ///< the object, or null

  handle_base() = default;
  /// Implicit, so that `nullptr` and untyped storage can be passed.
  handle_base(void* impl) : p_impl(static_cast<Impl*>(impl)) {}

  /// Whether the handle names no object.
  bool is_empty() const { return reinterpret_cast<uintptr_t>(p_impl) <= Reserved; }
  /// The object. @throws std::runtime_error if the pointer is null.
  Impl* get_impl() const {
    if (p_impl == nullptr) throw std::runtime_error(std::string(Handle::type_name()) + " is empty");
    return p_impl;
  }
  /// Makes the handle name another object.
  void set_impl(Impl* impl) { p_impl = impl; }
  /// Copy of the object's effective attributes. @throws std::runtime_error for an empty handle.
  attr_t get_attr() const { return attr_of(self()); }
  /// Attribute `name`. @throws std::runtime_error for an empty handle.
  const char* get_attr_name() const { return attr_of(self()).name; }
  /// Attribute `user_context`. @throws std::runtime_error for an empty handle.
  void* get_attr_user_context() const { return attr_of(self()).user_context; }

  // Not members: both operands then convert in the same way, and C++20 finds no second, reversed
  // candidate.
  /// Whether both name the same object.
  friend bool operator==(const Handle& a, const Handle& b) { return a.p_impl == b.p_impl; }
  /// Whether they name different objects.
  friend bool operator!=(const Handle& a, const Handle& b) { return a.p_impl != b.p_impl; }

 protected:
  const Handle& self() const { return static_cast<const Handle&>(*this); }
};

}  // namespace detail

/// An independent instance of the library, with everything that it owns.
struct runtime_t : detail::handle_base<runtime_t, runtime_impl_t, runtime_attr_t, 0> {
  using handle_base::handle_base;
  runtime_t() = default;
  static const char* type_name() { return "runtime"; }  ///< for messages
  /// Effective attribute; attr.hpp says what it means. @throws std::runtime_error for an empty
  /// handle.
  ///@{
  size_t get_attr_packet_return_threshold() const { return attr_of(*this).packet_return_threshold; }
  int get_attr_imm_nbits_tag() const { return attr_of(*this).imm_nbits_tag; }
  int get_attr_imm_nbits_rcomp() const { return attr_of(*this).imm_nbits_rcomp; }
  attr_rdv_protocol_t get_attr_rdv_protocol() const { return attr_of(*this).rdv_protocol; }
  int get_attr_gpu_resident() const { return attr_of(*this).gpu_resident; }
  attr_gpu_gdrcopy_t get_attr_gpu_gdrcopy() const { return attr_of(*this).gpu_gdrcopy; }
  attr_gpu_proxy_t get_attr_gpu_proxy() const { return attr_of(*this).gpu_proxy; }
  attr_gpu_tier_t get_attr_gpu_tier() const { return attr_of(*this).gpu_tier; }
  int get_attr_max_handler_depth() const { return attr_of(*this).max_handler_depth; }
  int get_attr_max_handler_wait_s() const { return attr_of(*this).max_handler_wait_s; }
  attr_failure_notice_t get_attr_failure_notice() const { return attr_of(*this).failure_notice; }
  uint64_t get_attr_max_imm_tag() const { return attr_of(*this).max_imm_tag; }
  uint64_t get_attr_max_imm_rcomp() const { return attr_of(*this).max_imm_rcomp; }
  uint64_t get_attr_max_tag() const { return attr_of(*this).max_tag; }
  uint64_t get_attr_max_rcomp() const { return attr_of(*this).max_rcomp; }
  bool get_attr_alloc_default_device() const { return attr_of(*this).alloc_default_device; }
  bool get_attr_alloc_default_packet_pool() const {
    return attr_of(*this).alloc_default_packet_pool;
  }
  bool get_attr_alloc_default_matching_engine() const {
    return attr_of(*this).alloc_default_matching_engine;
  }
  ///@}
};

/// An opened network: the protection domain in which memory is registered.
struct net_context_t
    : detail::handle_base<net_context_t, net_context_impl_t, net_context_attr_t, 0> {
  using handle_base::handle_base;
  net_context_t() = default;
  static const char* type_name() { return "net_context"; }  ///< for messages
  /// Effective attribute; attr.hpp says what it means. @throws std::runtime_error for an empty
  /// handle.
  ///@{
  attr_backend_t get_attr_backend() const { return attr_of(*this).backend; }
  std::string get_attr_ofi_provider_name() const { return attr_of(*this).ofi_provider_name; }
  std::string get_attr_device_name() const { return attr_of(*this).device_name; }
  size_t get_attr_max_msg_size() const { return attr_of(*this).max_msg_size; }
  size_t get_attr_max_inject_size() const { return attr_of(*this).max_inject_size; }
  int get_attr_ibv_gid_idx() const { return attr_of(*this).ibv_gid_idx; }
  bool get_attr_ibv_force_gid_auto_select() const {
    return attr_of(*this).ibv_force_gid_auto_select;
  }
  attr_ibv_odp_strategy_t get_attr_ibv_odp_strategy() const {
    return attr_of(*this).ibv_odp_strategy;
  }
  attr_ibv_prefetch_strategy_t get_attr_ibv_prefetch_strategy() const {
    return attr_of(*this).ibv_prefetch_strategy;
  }
  bool get_attr_support_putimm() const { return attr_of(*this).support_putimm; }
  bool get_attr_use_dmabuf() const { return attr_of(*this).use_dmabuf; }
  bool get_attr_shm_single_copy() const { return attr_of(*this).shm_single_copy; }
  bool get_attr_shm_pipelined_copy() const { return attr_of(*this).shm_pipelined_copy; }
  size_t get_attr_shm_single_copy_min() const { return attr_of(*this).shm_single_copy_min; }
  attr_gpu_path_t get_attr_gpu_path() const { return attr_of(*this).gpu_path; }
  bool get_attr_check_pointers() const { return attr_of(*this).check_pointers; }
  ///@}
};

/// An independent set of network queues; `progress` serves one device.
struct device_t : detail::handle_base<device_t, device_impl_t, device_attr_t, 0> {
  using handle_base::handle_base;
  device_t() = default;
  static const char* type_name() { return "device"; }  ///< for messages
  /// Effective attribute; attr.hpp says what it means. @throws std::runtime_error for an empty
  /// handle.
  ///@{
  size_t get_attr_net_max_sends() const { return attr_of(*this).net_max_sends; }
  size_t get_attr_net_max_recvs() const { return attr_of(*this).net_max_recvs; }
  size_t get_attr_net_max_cqes() const { return attr_of(*this).net_max_cqes; }
  double get_attr_net_send_reserved_pct() const { return attr_of(*this).net_send_reserved_pct; }
  uint64_t get_attr_ofi_lock_mode() const { return attr_of(*this).ofi_lock_mode; }
  bool get_attr_alloc_default_endpoint() const { return attr_of(*this).alloc_default_endpoint; }
  bool get_attr_alloc_progress_endpoint() const { return attr_of(*this).alloc_progress_endpoint; }
  bool get_attr_use_reg_cache() const { return attr_of(*this).use_reg_cache; }
  bool get_attr_shm_enable() const { return attr_of(*this).shm_enable; }
  size_t get_attr_shm_ring_size() const { return attr_of(*this).shm_ring_size; }
  size_t get_attr_shm_slot_size() const { return attr_of(*this).shm_slot_size; }
  size_t get_attr_shm_producer_cas_attempts() const {
    return attr_of(*this).shm_producer_cas_attempts;
  }
  size_t get_attr_shm_consumer_cas_attempts() const {
    return attr_of(*this).shm_consumer_cas_attempts;
  }
  size_t get_attr_shm_max_polls() const { return attr_of(*this).shm_max_polls; }
  attr_ibv_td_strategy_t get_attr_ibv_td_strategy() const { return attr_of(*this).ibv_td_strategy; }
  int get_attr_uid() const { return attr_of(*this).uid; }
  ///@}
};

/// The send side of a device; separate endpoints reduce contention between senders.
struct endpoint_t : detail::handle_base<endpoint_t, endpoint_impl_t, endpoint_attr_t, 0> {
  using handle_base::handle_base;
  endpoint_t() = default;
  static const char* type_name() { return "endpoint"; }  ///< for messages
  /// Effective attribute; attr.hpp says what it means. @throws std::runtime_error for an empty
  /// handle.
  ///@{
  int get_attr_uid() const { return attr_of(*this).uid; }
  ///@}
};

/// A pool of registered buffers of one size.
struct packet_pool_t
    : detail::handle_base<packet_pool_t, packet_pool_impl_t, packet_pool_attr_t, 0> {
  using handle_base::handle_base;
  packet_pool_t() = default;
  static const char* type_name() { return "packet_pool"; }  ///< for messages
  /// Effective attribute; attr.hpp says what it means. @throws std::runtime_error for an empty
  /// handle.
  ///@{
  size_t get_attr_packet_size() const { return attr_of(*this).packet_size; }
  size_t get_attr_npackets() const { return attr_of(*this).npackets; }
  ///@}
};

/// Matches receives with arriving messages.
struct matching_engine_t
    : detail::handle_base<matching_engine_t, matching_engine_impl_t, matching_engine_attr_t, 0> {
  using handle_base::handle_base;
  matching_engine_t() = default;
  static const char* type_name() { return "matching_engine"; }  ///< for messages
  /// Effective attribute; attr.hpp says what it means. @throws std::runtime_error for an empty
  /// handle.
  ///@{
  attr_matching_engine_type_t get_attr_matching_engine_type() const {
    return attr_of(*this).matching_engine_type;
  }
  ///@}
};

/// A registered memory region. The values 0, 1 and 2 are not regions; they give the memory kind of
/// a buffer (MR_HOST, MR_DEVICE, MR_UNKNOWN) and count as empty.
struct mr_t : detail::handle_base<mr_t, mr_impl_t, mr_attr_t, 2> {
  using handle_base::handle_base;
  mr_t() = default;
  static const char* type_name() { return "mr"; }  ///< for messages
};

/// A completion object. The values 0 and 1 (COMP_NULL, COMP_NULL_RETRY) count as empty.
struct comp_t : detail::handle_base<comp_t, comp_impl_t, comp_attr_t, 1> {
  using handle_base::handle_base;
  comp_t() = default;
  static const char* type_name() { return "comp"; }  ///< for messages
  /// Effective attribute; attr.hpp says what it means. @throws std::runtime_error for an empty
  /// handle.
  ///@{
  attr_comp_type_t get_attr_comp_type() const { return attr_of(*this).comp_type; }
  int get_attr_sync_threshold() const { return attr_of(*this).sync_threshold; }
  bool get_attr_zero_copy_am() const { return attr_of(*this).zero_copy_am; }
  attr_cq_type_t get_attr_cq_type() const { return attr_of(*this).cq_type; }
  int get_attr_cq_default_length() const { return attr_of(*this).cq_default_length; }
  ///@}
};

/// Remote key: what a peer needs to access a registered region. Plain bytes that can be copied and
/// sent.
struct rmr_t {
  uintptr_t base = 0;        ///< address that was registered; `remote_disp` counts from here
  uintptr_t mr_base = 0;     ///< internal: a check word with which posts detect changed copies
  uint64_t opaque_rkey = 0;  ///< internal
  /// Whether it names no region.
  /// @return true if so
  bool is_empty() const { return base == 0 && mr_base == 0 && opaque_rkey == 0; }
};

/// The buffer is in host memory (the default): no look-up.
const mr_t MR_HOST = mr_t();
/// The buffer is in GPU memory. In a process that uses no GPU it counts as host memory, with one
/// warning per process. If the GPU driver reports host memory, the post throws argument_error.
const mr_t MR_DEVICE = mr_t(reinterpret_cast<void*>(static_cast<uintptr_t>(1)));
/// Query the memory kind of the buffer; costs one look-up per post.
const mr_t MR_UNKNOWN = mr_t(reinterpret_cast<void*>(static_cast<uintptr_t>(2)));
/// No remote region.
const rmr_t RMR_NULL = rmr_t();

/// No completion object; complete inside the call: implies
/// `allow_posted(false).allow_retry(false)`.
const comp_t COMP_NULL = comp_t();
/// No completion object; complete inside the call or return retry: implies `allow_posted(false)`.
/// Retry means that nothing was started: there were no resources, or for a receive no message after
/// one round of progress. A started operation completes inside the call, which makes progress: a
/// large send or active message when the peer has received it, a put or get when the data has
/// arrived. Pass a completion object if the call must not wait for that.
const comp_t COMP_NULL_RETRY = comp_t(reinterpret_cast<void*>(static_cast<uintptr_t>(1)));
/// Former name of COMP_NULL.
const comp_t COMP_NULL_EXPECT_DONE = COMP_NULL;
/// Former name of COMP_NULL_RETRY.
const comp_t COMP_NULL_EXPECT_DONE_OR_RETRY = COMP_NULL_RETRY;

}  // namespace lci

#endif  // LCI_HANDLES_HPP
