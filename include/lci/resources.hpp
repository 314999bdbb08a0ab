/// @file resources.hpp
/// Net contexts, devices, endpoints and matching engines. Packet pools are in memory.hpp.
///
/// Allocating and freeing: one thread at a time, in the same order on all ranks, because devices,
/// endpoints and engines of different processes are paired by their number. Allocating a net
/// context, a device or an endpoint is collective. Freeing is local: synchronise first. Getting the
/// defaults: any thread.
#ifndef LCI_RESOURCES_HPP
#define LCI_RESOURCES_HPP

#include <string>
#include <utility>

#include "lci/options.hpp"

namespace lci {
namespace detail {

/// Arguments of alloc_net_context.
struct alloc_net_context_args {
  overrides_t<net_context_settings_t> settings;
  runtime_t runtime;
  const char* name = nullptr;  // null: DEFAULT_NAME, here and below
  void* user_context = nullptr;
};
/// Arguments of alloc_device.
struct alloc_device_args {
  overrides_t<device_settings_t> settings;
  runtime_t runtime;
  net_context_t net_context;
  packet_pool_t packet_pool;
  const char* name = nullptr;
  void* user_context = nullptr;
};
/// Arguments of alloc_endpoint.
struct alloc_endpoint_args {
  runtime_t runtime;
  device_t device;
  const char* name = nullptr;
  void* user_context = nullptr;
};
/// Arguments of alloc_matching_engine.
struct alloc_matching_engine_args {
  overrides_t<matching_engine_settings_t> settings;
  runtime_t runtime;
  const char* name = nullptr;
  void* user_context = nullptr;
};
/// Arguments of matching_engine_insert.
struct matching_engine_insert_args {
  matching_engine_t matching_engine;
  matching_entry_key_t key = 0;
  matching_entry_val_t value = nullptr;
  matching_entry_type_t entry_type = matching_entry_type_t::send;
  runtime_t runtime;
};

LCI_PUBLIC net_context_t alloc_net_context(const alloc_net_context_args& args);
LCI_PUBLIC device_t alloc_device(const alloc_device_args& args);
LCI_PUBLIC endpoint_t alloc_endpoint(const alloc_endpoint_args& args);
LCI_PUBLIC matching_engine_t alloc_matching_engine(const alloc_matching_engine_args& args);
LCI_PUBLIC void free_net_context(const free_args<net_context_t>& args);
LCI_PUBLIC void free_device(const free_args<device_t>& args);
LCI_PUBLIC void free_endpoint(const free_args<endpoint_t>& args);
LCI_PUBLIC void free_matching_engine(const free_args<matching_engine_t>& args);
LCI_PUBLIC matching_entry_val_t matching_engine_insert(const matching_engine_insert_args& args);
LCI_PUBLIC net_context_t get_default_net_context(const get_default_args& args);
LCI_PUBLIC device_t get_default_device(const get_default_args& args);
LCI_PUBLIC endpoint_t get_default_endpoint(const get_default_args& args);
LCI_PUBLIC matching_engine_t get_default_matching_engine(const get_default_args& args);

}  // namespace detail

/// Opens a network. Defaults of all settings: the global defaults at the time of the call. While it
/// waits for the other ranks it makes progress, as alloc_device() does.
/// @return  the net context; free it with free_net_context() after its devices
/// @throws lci::backend_error  no backend is usable, or not the requested one; the text gives the
/// reason
class alloc_net_context_x
    : public detail::alloc_operation<alloc_net_context_x, detail::alloc_net_context_args,
                                     net_context_settings_t, net_context_t,
                                     &detail::alloc_net_context> {
 public:
  typedef alloc_net_context_x&& self_t;  ///< what setters return
  /// Sets an attribute; attr.hpp says what it means.
  ///@{
  self_t backend(attr_backend_t value) { return set(&S::backend, value); }
  self_t ofi_provider_name(std::string value) {
    return set(&S::ofi_provider_name, std::move(value));
  }
  self_t max_msg_size(size_t value) { return set(&S::max_msg_size, value); }
  self_t max_inject_size(size_t value) { return set(&S::max_inject_size, value); }
  self_t ibv_gid_idx(int value) { return set(&S::ibv_gid_idx, value); }
  self_t ibv_force_gid_auto_select(bool value) { return set(&S::ibv_force_gid_auto_select, value); }
  self_t device_name(std::string value) { return set(&S::device_name, std::move(value)); }
  self_t ibv_odp_strategy(attr_ibv_odp_strategy_t value) {
    return set(&S::ibv_odp_strategy, value);
  }
  self_t ibv_prefetch_strategy(attr_ibv_prefetch_strategy_t value) {
    return set(&S::ibv_prefetch_strategy, value);
  }
  self_t use_dmabuf(bool value) { return set(&S::use_dmabuf, value); }
  self_t shm_single_copy(bool value) { return set(&S::shm_single_copy, value); }
  self_t shm_pipelined_copy(bool value) { return set(&S::shm_pipelined_copy, value); }
  self_t shm_single_copy_min(size_t value) { return set(&S::shm_single_copy_min, value); }
  self_t gpu_path(attr_gpu_path_t value) { return set(&S::gpu_path, value); }
  self_t check_pointers(bool value) { return set(&S::check_pointers, value); }
  ///@}
};

/// Creates a device. Collective. Defaults of all settings: the global defaults at the time of the
/// call. The device delivers active messages in a packet pool with an allocator, as with
/// register_packet_pool(); its other packets then come from the runtime's default pool.
///
/// While the call waits for the other ranks it makes progress on the devices that exist, so they
/// need no further call of this rank to get what it has sent, if the bootstrap can wait in steps;
/// otherwise only before it waits, for at most a second. Handlers do not run meanwhile; what is for
/// them waits for the next progress(). Devices that the program has not used yet or has used only
/// by the net_* calls, and those on which such calls are under way, are left alone.
///
/// A net context can hold 1024 devices at a time, or 128 if some of its ranks share memory; more
/// are a backend_error that says so. Network resources of a freed device, such as its
/// queues, are kept and reused for a later device with the same settings, once all ranks have freed
/// theirs.
/// @return  the device; free it with free_device()
/// @throws lci::argument_error  a setting out of range
/// @throws lci::backend_error   the backend fails, or there are too many devices
class alloc_device_x
    : public detail::alloc_operation<alloc_device_x, detail::alloc_device_args, device_settings_t,
                                     device_t, &detail::alloc_device>,
      public detail::packet_pool_option<alloc_device_x> {
 public:
  typedef alloc_device_x&& self_t;  ///< what setters return
  /// Sets an attribute; attr.hpp says what it means.
  ///@{
  self_t net_max_sends(size_t value) { return set(&S::net_max_sends, value); }
  self_t net_max_recvs(size_t value) { return set(&S::net_max_recvs, value); }
  self_t net_max_cqes(size_t value) { return set(&S::net_max_cqes, value); }
  self_t net_send_reserved_pct(double value) { return set(&S::net_send_reserved_pct, value); }
  self_t ofi_lock_mode(uint64_t value) { return set(&S::ofi_lock_mode, value); }
  self_t alloc_default_endpoint(bool value) { return set(&S::alloc_default_endpoint, value); }
  self_t alloc_progress_endpoint(bool value) { return set(&S::alloc_progress_endpoint, value); }
  self_t use_reg_cache(bool value) { return set(&S::use_reg_cache, value); }
  self_t shm_enable(bool value) { return set(&S::shm_enable, value); }
  self_t shm_ring_size(size_t value) { return set(&S::shm_ring_size, value); }
  self_t shm_slot_size(size_t value) { return set(&S::shm_slot_size, value); }
  self_t shm_producer_cas_attempts(size_t value) {
    return set(&S::shm_producer_cas_attempts, value);
  }
  self_t shm_consumer_cas_attempts(size_t value) {
    return set(&S::shm_consumer_cas_attempts, value);
  }
  self_t shm_max_polls(size_t value) { return set(&S::shm_max_polls, value); }
  self_t ibv_td_strategy(attr_ibv_td_strategy_t value) { return set(&S::ibv_td_strategy, value); }
  ///@}
  /// Sets the net context. Default: the runtime's.
  self_t net_context(net_context_t value) {
    args.net_context = detail::given(value);
    return self();
  }
};

/// Creates another endpoint of a device. Collective.
/// @return  the endpoint; free it with free_endpoint() before its device
class alloc_endpoint_x : public detail::operation<alloc_endpoint_x, detail::alloc_endpoint_args,
                                                  endpoint_t, &detail::alloc_endpoint>,
                         public detail::runtime_option<alloc_endpoint_x>,
                         public detail::device_option<alloc_endpoint_x>,
                         public detail::name_options<alloc_endpoint_x> {};

/// Creates a matching engine. All ranks create them in the same order.
///
/// Peers name it by its number in that order, so a rank may send to it once the others have created
/// theirs too: put a barrier between this call and the first post that names the new engine, unless
/// other messages establish this. A message for an engine that its receiver has not created yet (or
/// has freed) is dropped, and the receiver's next progress throws argument_error. The default
/// engine needs no barrier: it exists before any peer can reach this rank. Threads: one at a time.
/// @return  the engine; free it with free_matching_engine()
class alloc_matching_engine_x
    : public detail::alloc_operation<alloc_matching_engine_x, detail::alloc_matching_engine_args,
                                     matching_engine_settings_t, matching_engine_t,
                                     &detail::alloc_matching_engine> {
 public:
  /// Sets the data structure. Default: attribute `matching_engine_type`.
  alloc_matching_engine_x&& matching_engine_type(attr_matching_engine_type_t value) {
    return set(&S::matching_engine_type, value);
  }
};

/// Closes a net context and empties the handle. Free its devices and deregister memory first, also
/// for the runtime's default net context. Unreceived messages that arrived through it are dropped
/// if they are still in a peer's memory. Over this network, peers that have communicated with this
/// rank then count it as one that has left; over their other net contexts they go on with it. Free
/// it when all ranks free theirs.
/// @throws lci::argument_error  a device or registration still uses it; nothing is freed
class free_net_context_x
    : public detail::free_operation<free_net_context_x, net_context_t, &detail::free_net_context> {
 public:
  /// Takes the handle to empty.
  explicit free_net_context_x(net_context_t* value) : free_operation(value) {}
  /// Sets the handle to empty.
  free_net_context_x&& net_context(net_context_t* value) { return set(value); }
};

/// Frees a device and empties the handle. Sends in flight are completed. Unmatched receives are
/// dropped and their objects are not signalled. Unreceived messages that have fully arrived through
/// this device can still be received through another one. Large messages that a peer has only
/// announced are dropped: call a barrier first. The call waits for operations under way, at most 5
/// s, and then another 5 s for receives that another device completes. It makes progress meanwhile,
/// so handlers may run. Threads: one at a time, while no thread uses the device.
class free_device_x : public detail::free_operation<free_device_x, device_t, &detail::free_device> {
 public:
  /// Takes the handle to empty.
  explicit free_device_x(device_t* value) : free_operation(value) {}
  /// Sets the handle to empty.
  free_device_x&& device(device_t* value) { return set(value); }
};

/// Frees an endpoint and empties the handle. Its device completes what was posted with it.
class free_endpoint_x
    : public detail::free_operation<free_endpoint_x, endpoint_t, &detail::free_endpoint> {
 public:
  /// Takes the handle to empty.
  explicit free_endpoint_x(endpoint_t* value) : free_operation(value) {}
  /// Sets the handle to empty.
  free_endpoint_x&& endpoint(endpoint_t* value) { return set(value); }
};

/// Frees a matching engine and empties the handle. Its entries are dropped: the objects of its
/// receives are not signalled, and test_drained() no longer counts them.
class free_matching_engine_x
    : public detail::free_operation<free_matching_engine_x, matching_engine_t,
                                    &detail::free_matching_engine> {
 public:
  /// Takes the handle to empty.
  explicit free_matching_engine_x(matching_engine_t* value) : free_operation(value) {}
  /// Sets the handle to empty.
  free_matching_engine_x&& matching_engine(matching_engine_t* value) { return set(value); }
};

/// Uses a matching engine directly: removes and returns the oldest opposite entry with that key,
/// else stores the value and returns null. These keys never match those of messages. Threads: any.
/// @return  the value of the removed opposite entry; null: there was none, and `value` is stored
/// @throws lci::argument_error  null value
class matching_engine_insert_x
    : public detail::operation<matching_engine_insert_x, detail::matching_engine_insert_args,
                               matching_entry_val_t, &detail::matching_engine_insert>,
      public detail::runtime_option<matching_engine_insert_x>,
      public detail::matching_engine_option<matching_engine_insert_x> {
 public:
  /// Positional arguments, see the setters of their names.
  matching_engine_insert_x(matching_engine_t matching_engine, matching_entry_key_t key,
                           matching_entry_val_t value, matching_entry_type_t entry_type) {
    args.matching_engine = matching_engine;
    args.key = key;
    args.value = value;
    args.entry_type = entry_type;
  }
  /// Sets the key.
  matching_engine_insert_x&& key(matching_entry_key_t value) {
    args.key = value;
    return self();
  }
  /// Sets the value to store.
  matching_engine_insert_x&& value(matching_entry_val_t value) {
    args.value = value;
    return self();
  }
  /// Sets the side that the value represents.
  matching_engine_insert_x&& entry_type(matching_entry_type_t value) {
    args.entry_type = value;
    return self();
  }
};

/// The runtime's default net context.
/// @return  the net context, which belongs to the runtime
class get_default_net_context_x
    : public detail::get_default_operation<get_default_net_context_x, net_context_t,
                                           &detail::get_default_net_context> {};
/// The runtime's default device; empty if it has none.
/// @return  the device, which belongs to the runtime; empty if it has none
class get_default_device_x : public detail::get_default_operation<get_default_device_x, device_t,
                                                                  &detail::get_default_device> {};
/// The runtime's default matching engine; empty if it has none.
/// @return  the engine, which belongs to the runtime; empty if it has none
class get_default_matching_engine_x
    : public detail::get_default_operation<get_default_matching_engine_x, matching_engine_t,
                                           &detail::get_default_matching_engine> {};
/// The default endpoint of a device; empty if it has none.
/// @return  the endpoint, which belongs to the device; empty if it has none
class get_default_endpoint_x
    : public detail::get_default_operation<get_default_endpoint_x, endpoint_t,
                                           &detail::get_default_endpoint>,
      public detail::device_option<get_default_endpoint_x> {};

/// alloc_net_context_x without options.
inline net_context_t alloc_net_context() { return alloc_net_context_x().call(); }
/// alloc_device_x without options.
inline device_t alloc_device() { return alloc_device_x().call(); }
/// alloc_endpoint_x without options.
inline endpoint_t alloc_endpoint() { return alloc_endpoint_x().call(); }
/// alloc_matching_engine_x without options.
inline matching_engine_t alloc_matching_engine() { return alloc_matching_engine_x().call(); }
/// free_net_context_x without options.
inline void free_net_context(net_context_t* net_context) { free_net_context_x(net_context).call(); }
/// free_device_x without options.
inline void free_device(device_t* device) { free_device_x(device).call(); }
/// free_endpoint_x without options.
inline void free_endpoint(endpoint_t* endpoint) { free_endpoint_x(endpoint).call(); }
/// free_matching_engine_x without options.
inline void free_matching_engine(matching_engine_t* matching_engine) {
  free_matching_engine_x(matching_engine).call();
}
/// matching_engine_insert_x without options.
inline matching_entry_val_t matching_engine_insert(matching_engine_t matching_engine,
                                                   matching_entry_key_t key,
                                                   matching_entry_val_t value,
                                                   matching_entry_type_t entry_type) {
  return matching_engine_insert_x(matching_engine, key, value, entry_type).call();
}
/// get_default_net_context_x without options.
inline net_context_t get_default_net_context() { return get_default_net_context_x().call(); }
/// get_default_device_x without options.
inline device_t get_default_device() { return get_default_device_x().call(); }
/// get_default_matching_engine_x without options.
inline matching_engine_t get_default_matching_engine() {
  return get_default_matching_engine_x().call();
}
/// get_default_endpoint_x without options.
inline endpoint_t get_default_endpoint() { return get_default_endpoint_x().call(); }

}  // namespace lci

#endif  // LCI_RESOURCES_HPP
