#include "backends/cuda/errors.hpp"

#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {

fault fault_of(abi::result code) noexcept {
  switch (code) {
    case abi::result::success:
      return fault::none;
    case abi::result::not_ready:
      return fault::not_yet;
    case abi::result::out_of_memory:
      return fault::no_memory;
    case abi::result::deinitialized:
    case abi::result::not_initialized:
    case abi::result::context_is_destroyed:
      return fault::gone;
    case abi::result::invalid_value:
    case abi::result::invalid_device:
    case abi::result::invalid_context:
    case abi::result::invalid_handle:
    case abi::result::map_failed:
    case abi::result::already_mapped:
    case abi::result::not_mapped:
    case abi::result::peer_access_unsupported:
    case abi::result::not_found:
    case abi::result::not_permitted:
    case abi::result::not_supported:
    case abi::result::stream_capture_unsupported:
    case abi::result::stream_capture_invalidated:
    case abi::result::stream_capture_implicit:
    case abi::result::host_memory_already_registered:
    case abi::result::host_memory_not_registered:
      return fault::refused;
    default:
      return fault::broken;
  }
}

std::string text_of(const abi::functions& call, abi::result code) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (call.get_error_name != nullptr) call.get_error_name(code, &name);
  if (call.get_error_string != nullptr) call.get_error_string(code, &text);
  return std::string(text == nullptr ? "unknown reason" : text) + " [" +
         (name == nullptr ? "CUDA error" : name) + " " + std::to_string(static_cast<int>(code)) +
         "]";
}

std::string text_of(const abi::functions& call, const failure& what, const std::string& on) {
  return std::string(what.call) + " failed" + (on.empty() ? "" : " on " + on) + ": " +
         text_of(call, what.code);
}

void check(const abi::functions& call, abi::result code, const char* name, const std::string& on) {
  if (code == abi::result::success) return;
  throw backend_error("cuda: " + text_of(call, failure{code, name}, on));
}

void log_teardown(const abi::functions& call, abi::result code, const char* name) noexcept {
  if (code == abi::result::success || fault_of(code) == fault::gone) return;
  log::warn("cuda", "%s", text_of(call, failure{code, name}, "").c_str());
}

}  // namespace lci::cuda
