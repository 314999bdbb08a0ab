#include "lci/api/resolve.hpp"

#include <string>
#include <string_view>

#include "lci/errors.hpp"

namespace lci::api {

void throw_no_default(const char* what) {
  runtime::refuse_fork(what);
  const bool is_runtime = std::string_view(what) == "runtime";
  throw argument_error(
      std::string(what) + " was not given and there is no default: " +
      (is_runtime ? std::string("call g_runtime_init() or pass one")
                  : "attribute alloc_default_" + std::string(what) +
                        " is off, or the default was freed; pass one, or leave the attribute on"));
}

[[noreturn]] static void throw_mismatch(const char* who, const char* owner, const char* part) {
  throw argument_error(std::string(who) + ": arguments " + owner + " and " + part +
                       " do not match: this " + part + " belongs to another " + owner);
}

void throw_apart(const char* who, runtime_t runtime) {
  check_given(runtime);
  throw_mismatch(who, "runtime", "device");
}

void throw_apart(const char* who, runtime_t runtime, device_t device,
                 const endpoint_impl_t& endpoint) {
  check_given(runtime);
  check_given(device);
  if (device.p_impl != nullptr && device.p_impl != &endpoint.device)
    throw_mismatch(who, "device", "endpoint");
  throw_mismatch(who, "runtime", "endpoint");
}

}  // namespace lci::api
