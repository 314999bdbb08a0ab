// CUDA's contexts, which HIP has not: the current device of a thread instead. A context is the
// number of its GPU, so there is nothing to make and nothing to free. Callers: driver.cpp,
// pointer.cpp. Threads: each has its own stack.
#pragma once

#include <cstdint>

#include "backends/cuda/abi.hpp"

namespace lci::hip {

// Null is no context, so GPU 0 is 1.
inline cuda::abi::context context_of(int ordinal) noexcept {
  return reinterpret_cast<cuda::abi::context>(static_cast<std::uintptr_t>(ordinal) + 1);
}
inline int ordinal_of(cuda::abi::context context) noexcept {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1;
}

// The device of before is current again after the pop.
cuda::abi::result push_context(cuda::abi::context context);
cuda::abi::result pop_context(cuda::abi::context* context);

}  // namespace lci::hip
