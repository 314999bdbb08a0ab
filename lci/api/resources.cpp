// Allocation and freeing of what a runtime owns.
#include "lci/resources.hpp"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>

#include "lci/api/resolve.hpp"
#include "lci/collective.hpp"
#include "lci/errors.hpp"
#include "lci/memory.hpp"
#include "lci/runtime/attribute_text.hpp"

namespace lci {
namespace detail {

namespace {

// The attributes of a new resource: the global defaults at this moment, changed by what was given.
template <class Attr, class Settings, class Args>
Attr attributes(const char* who, const Args& args) {
  Attr attr;
  Settings& settings = attr;
  settings = args.settings.applied_to(g_default_attr);
  runtime::check_settings(who, settings);
  attr.name = args.name != nullptr ? args.name : DEFAULT_NAME;
  attr.user_context = args.user_context;
  return attr;
}

// Checks a handle that is to be freed.
template <class Handle>
auto* look(const free_args<Handle>& args, const char* what) {
  if (args.handle == nullptr)
    throw argument_error(std::string(what) + ": the pointer to the handle is null");
  api::check_given(args.runtime);
  return base::check_live(args.handle->p_impl, what);
}

// The same, and empties it.
template <class Handle>
auto* take(const free_args<Handle>& args, const char* what) {
  auto* impl = look(args, what);
  *args.handle = Handle();
  return impl;
}

// Throws if things of that kind, such as "device", would be left without what is to be freed.
void check_unused(const char* who, std::ptrdiff_t users, const char* kind, const char* ended_by) {
  if (users == 0) return;
  throw argument_error(std::string(who) + ": " + std::to_string(users) + " " + kind +
                       (users == 1 ? " still uses it; call " : "s still use it; call ") + ended_by +
                       "() first");
}

template <class Handle, class Impl>
void clear_default(Handle& slot, const Impl* impl) {
  if (slot.p_impl == impl) slot = Handle();
}

}  // namespace

net_context_t alloc_net_context(const alloc_net_context_args& args) {
  runtime_impl_t& owner = api::find_runtime(args.runtime);
  return net_context_t(base::make_live<net_context_impl_t>(
      owner, attributes<net_context_attr_t, net_context_settings_t>("alloc_net_context", args)));
}

void free_net_context(const free_args<net_context_t>& args) {
  net_context_impl_t* impl = look(args, "net_context");
  check_unused("free_net_context",
               std::ranges::count(impl->owner.devices, impl,
                                  [](const device_impl_t* one) { return &one->context; }),
               "device", "free_device");
  {
    const std::lock_guard lock(impl->owner.regions_lock);
    check_unused(
        "free_net_context",
        std::ranges::count_if(impl->owner.regions,
                              [&](const mr_impl_t* one) { return one->key.is_of(*impl->fabric); }),
        "memory registration", "deregister_memory");
  }
  *args.handle = net_context_t();
  clear_default(impl->owner.default_net_context, impl);
  forget(impl->owner.net_contexts, impl);
  base::free_live(impl, "net_context");
}

device_t alloc_device(const alloc_device_args& args) {
  runtime_impl_t& owner = api::find_runtime(args.runtime);
  const net_context_t context =
      args.net_context.p_impl != nullptr ? args.net_context : owner.default_net_context;
  const packet_pool_t pool =
      args.packet_pool.p_impl != nullptr ? args.packet_pool : owner.internal_pool();
  return device_t(base::make_live<device_impl_t>(
      *base::check_live(context.p_impl, "net_context"),
      *base::check_live(pool.p_impl, "packet_pool"),
      attributes<device_attr_t, device_settings_t>("alloc_device", args)));
}

void free_device(const free_args<device_t>& args) {
  device_impl_t* impl = take(args, "device");
  // While it is one: posts to it are work that is ended first.
  if (runtime::extension* const above = impl->owner().extension(); above != nullptr)
    above->on_device_ends(*impl);
  clear_default(impl->owner().default_device, impl);
  base::free_live(impl, "device");
}

endpoint_t alloc_endpoint(const alloc_endpoint_args& args) {
  auto* made = base::make_live<endpoint_impl_t>(
      api::find_device("alloc_endpoint", args.runtime, args.device));
  made->attr.name = args.name != nullptr ? args.name : DEFAULT_NAME;
  made->attr.user_context = args.user_context;
  return endpoint_t(made);
}

void free_endpoint(const free_args<endpoint_t>& args) {
  endpoint_impl_t* impl = take(args, "endpoint");
  clear_default(impl->device.default_endpoint, impl);
  clear_default(impl->device.progress_endpoint, impl);
  base::free_live(impl, "endpoint");
}

matching_engine_t alloc_matching_engine(const alloc_matching_engine_args& args) {
  runtime_impl_t& owner = api::find_runtime(args.runtime);
  return matching_engine_t(base::make_live<matching_engine_impl_t>(
      owner, attributes<matching_engine_attr_t, matching_engine_settings_t>("alloc_matching_engine",
                                                                            args)));
}

void free_matching_engine(const free_args<matching_engine_t>& args) {
  matching_engine_impl_t* impl = take(args, "matching_engine");
  clear_default(impl->owner.default_matching_engine, impl);
  clear_default(impl->owner.collective_engine, impl);
  forget(impl->owner.engines, impl);
  base::free_live(impl, "matching_engine");
}

namespace {

// Their texts are built in functions of their own, for which the one that is called often saves no
// registers.
[[noreturn]] LCI_COLD void refuse_null_value() {
  throw argument_error("matching_engine_insert: value is null, which stands for no partner");
}

[[noreturn]] LCI_COLD void refuse_entry_type(matching_entry_type_t type) {
  throw argument_error("matching_engine_insert: entry_type is " +
                       std::to_string(static_cast<unsigned>(type)) +
                       "; legal are send (0) and recv (1)");
}

}  // namespace

matching_entry_val_t matching_engine_insert(const matching_engine_insert_args& args) {
  if (args.value == nullptr) refuse_null_value();
  if (static_cast<unsigned>(args.entry_type) > static_cast<unsigned>(matching_entry_type_t::recv))
    refuse_entry_type(args.entry_type);
  api::check_given(args.runtime);
  return base::check_live(args.matching_engine.p_impl, "matching_engine")
      ->match.engine()
      .insert_raw(args.key, args.value, args.entry_type);
}

packet_pool_t alloc_packet_pool(const alloc_packet_pool_args& args) {
  runtime_impl_t& owner = api::find_runtime(args.runtime);
  return packet_pool_t(base::make_live<packet_pool_impl_t>(
      owner, attributes<packet_pool_attr_t, packet_pool_settings_t>("alloc_packet_pool", args),
      args.allocator));
}

void free_packet_pool(const free_args<packet_pool_t>& args) {
  packet_pool_impl_t* impl = look(args, "packet_pool");
  check_unused("free_packet_pool",
               std::ranges::count(impl->owner.devices, impl,
                                  [](const device_impl_t* one) { return &one->pool; }),
               "device", "free_device");
  *args.handle = packet_pool_t();
  clear_default(impl->owner.default_packet_pool, impl);
  forget(impl->owner.packet_pools, impl);
  base::free_live(impl, "packet_pool");
}

// Packets lie in memory that every device of the runtime can reach already, so binding needs only
// valid handles. Payloads of an allocator are where the device delivers.
void register_packet_pool(const bind_packet_pool_args& args) {
  api::check_given(args.runtime);
  packet_pool_impl_t& pool = *base::check_live(args.packet_pool.p_impl, "packet_pool");
  device_impl_t& device = *base::check_live(args.device.p_impl, "device");
  if (pool.payloads == nullptr) return;
  if (&pool.owner != &device.owner())
    throw argument_error("register_packet_pool: pool and device belong to different runtimes");
  device.queues.gpu.enter(*pool.payloads);
}

void deregister_packet_pool(const bind_packet_pool_args& args) {
  api::check_given(args.runtime);
  packet_pool_impl_t& pool = *base::check_live(args.packet_pool.p_impl, "packet_pool");
  device_impl_t& device = *base::check_live(args.device.p_impl, "device");
  if (pool.payloads != nullptr) device.queues.gpu.leave(*pool.payloads);
}

net_context_t get_default_net_context(const get_default_args& args) {
  return api::find_runtime(args.runtime).default_net_context;
}
device_t get_default_device(const get_default_args& args) {
  return api::find_runtime(args.runtime).default_device;
}
packet_pool_t get_default_packet_pool(const get_default_args& args) {
  return api::find_runtime(args.runtime).default_packet_pool;
}
matching_engine_t get_default_matching_engine(const get_default_args& args) {
  return api::find_runtime(args.runtime).default_matching_engine;
}
endpoint_t get_default_endpoint(const get_default_args& args) {
  return api::find_device("get_default_endpoint", args.runtime, args.device).default_endpoint;
}

matching_engine_t get_collective_engine(runtime_t runtime) {
  const matching_engine_t engine = api::find_runtime(runtime).collective_engine;
  if (engine.p_impl == nullptr) api::throw_no_default("matching_engine");
  return engine;
}

runtime_t runtime_of(runtime_t runtime, device_t device, endpoint_t endpoint) {
  api::check_given(runtime);
  api::check_given(device);
  api::check_given(endpoint);
  if (endpoint.p_impl != nullptr)
    api::find_endpoint("collective", runtime, device, endpoint);
  else if (device.p_impl != nullptr)
    api::find_device("collective", runtime, device);
  if (runtime.p_impl != nullptr) return runtime;
  if (device.p_impl != nullptr) return runtime_t(&device.p_impl->owner());
  if (endpoint.p_impl != nullptr) return runtime_t(&endpoint.p_impl->device.owner());
  return runtime_t(&api::find_runtime(runtime));
}

std::uint64_t next_collective_sequence(matching_engine_t engine) {
  // Relaxed: only a number; it publishes no other data.
  return base::check_live(engine.p_impl, "matching_engine")
      ->next_collective.fetch_add(1, std::memory_order_relaxed);
}

void list_unfinished(runtime_t runtime, unfinished_t* one) { runtime.p_impl->unfinished.add(*one); }
void unlist_unfinished(runtime_t runtime, unfinished_t* one) {
  runtime.p_impl->unfinished.remove(*one);
}

}  // namespace detail
}  // namespace lci
