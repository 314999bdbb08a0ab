// The driver's codes in our words. A failed call becomes one of three things: an exception at
// set-up (check), a `failure` handed back where nothing may be thrown, or a log line in a
// destructor. Callers: backends/cuda. Threads: any; pure functions of their arguments.
// Always true: the text names the call, the object and the driver's own name and reason.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cuda/abi.hpp"

namespace lci::cuda {

// What a caller can do about a code.
enum class fault : std::uint8_t {
  none,
  not_yet,    // under way: ask again
  no_memory,  // GPU or pinned memory is short: another path, or later
  refused,    // this call on this object is not possible: another path
  gone,       // the context or the driver has ended: nothing of this GPU can be used any more
  broken      // the GPU or the context is in a sticky error
};
fault fault_of(abi::result code) noexcept;

// The call was turned down and nothing else is the worse for it.
constexpr bool is_of_one_call(fault what) noexcept {
  return what == fault::refused || what == fault::no_memory;
}

// A failed call as a value.
struct failure {
  abi::result code = abi::result::success;
  const char* call = "";  // a literal
  explicit operator bool() const noexcept { return code != abi::result::success; }
  fault kind() const noexcept { return fault_of(code); }
};

// "out of memory [CUDA_ERROR_OUT_OF_MEMORY 2]".
std::string text_of(const abi::functions& call, abi::result code);
// "cuMemcpyAsync failed on GPU 0, 64 bytes: out of memory [CUDA_ERROR_OUT_OF_MEMORY 2]"; `on` may
// be empty.
std::string text_of(const abi::functions& call, const failure& what, const std::string& on);

// Throws backend_error unless `code` is success.
void check(const abi::functions& call, abi::result code, const char* name, const std::string& on);
// Tear-down: says it once in the log. That the driver has ended before us is no mistake.
void log_teardown(const abi::functions& call, abi::result code, const char* name) noexcept;

}  // namespace lci::cuda
