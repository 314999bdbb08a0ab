// From handles that may be missing to the objects that they stand for. Defaults are used only where
// nothing was given, and everything else follows from what was given, so a private runtime needs no
// global one. Threads: any. Errors: argument_error for a freed handle, or when something is missing
// and there is no default. A default is forgotten when it is freed, so unlike a handle from the
// program it is either empty or valid. A handle that was given is always checked, even where
// another one decides what is meant, and those given together have to belong together. who: the
// call, for the text.
#pragma once

#include "lci/mem/packet_pool.hpp"
#include "lci/runtime/device.hpp"
#include "lci/runtime/global.hpp"
#include "lci/runtime/runtime.hpp"

namespace lci::api {

[[noreturn]] LCI_COLD void throw_no_default(const char* what);

inline void check_given(runtime_t given) {
  if (given.p_impl != nullptr) base::check_live(given.p_impl, "runtime");
}
inline void check_given(device_t given) {
  if (given.p_impl != nullptr) base::check_live(given.p_impl, "device");
}
inline void check_given(endpoint_t given) {
  if (given.p_impl != nullptr) base::check_live(given.p_impl, "endpoint");
}
inline void check_given(packet_pool_t given) {
  if (given.p_impl != nullptr) base::check_live(given.p_impl, "packet_pool");
}
inline void check_given(matching_engine_t given) {
  if (given.p_impl != nullptr) base::check_live(given.p_impl, "matching_engine");
}

inline runtime_impl_t& find_runtime(runtime_t given) {
  if (given.p_impl != nullptr) return *base::check_live(given.p_impl, "runtime");
  const runtime_t runtime = runtime::global().default_runtime;
  if (runtime.p_impl == nullptr) [[unlikely]]
    throw_no_default("runtime");
  return *runtime.p_impl;
}

// For those that do not match: they do not belong together, or are no handles. The owner of a live
// object is live, so that one that matches needs no check of its own.
[[noreturn]] LCI_COLD void throw_apart(const char* who, runtime_t runtime);

inline device_impl_t& find_device(const char* who, runtime_t runtime, device_t given) {
  if (given.p_impl != nullptr) {
    device_impl_t& device = *base::check_live(given.p_impl, "device");
    if (runtime.p_impl != nullptr && runtime.p_impl != &device.owner()) [[unlikely]]
      throw_apart(who, runtime);
    return device;
  }
  const device_t device = find_runtime(runtime).default_device;
  if (device.p_impl == nullptr) [[unlikely]]
    throw_no_default("device");
  return *device.p_impl;
}

[[noreturn]] LCI_COLD void throw_apart(const char* who, runtime_t runtime, device_t device,
                                       const endpoint_impl_t& endpoint);

inline endpoint_impl_t& find_endpoint(const char* who, runtime_t runtime, device_t device,
                                      endpoint_t given) {
  if (given.p_impl != nullptr) {
    endpoint_impl_t& endpoint = *base::check_live(given.p_impl, "endpoint");
    if (runtime.p_impl != nullptr && runtime.p_impl != &endpoint.device.owner()) [[unlikely]]
      throw_apart(who, runtime, device, endpoint);
    if (device.p_impl != nullptr && device.p_impl != &endpoint.device) [[unlikely]]
      throw_apart(who, runtime, device, endpoint);
    return endpoint;
  }
  const endpoint_t endpoint = find_device(who, runtime, device).default_endpoint;
  if (endpoint.p_impl == nullptr) [[unlikely]]
    throw_no_default("endpoint");
  return *endpoint.p_impl;
}

inline packet_pool_impl_t& find_packet_pool(runtime_t runtime, packet_pool_t given) {
  if (given.p_impl != nullptr) {
    check_given(runtime);
    return *base::check_live(given.p_impl, "packet_pool");
  }
  const packet_pool_t pool = find_runtime(runtime).default_packet_pool;
  if (pool.p_impl == nullptr) [[unlikely]]
    throw_no_default("packet_pool");
  return *pool.p_impl;
}

}  // namespace lci::api
