// What the processor and the kernel for atomic operations say to each other, in pinned host memory.
// Read by both compilers, and by the mock driver. Callers: atomic_jobs, device/atomic_words.cu.
// Threads: types only. Always true: requests and answers of a launch are its own until `done` is
// its number; the answers are there before that.
#pragma once

#include <cstdint>

#include "lci/wqe/word_change.hpp"

namespace lci::cuda::atomic_layout {

inline constexpr unsigned MOST = 256;  // requests of a launch, which has a thread for each
inline constexpr const char* KERNEL = "lci_atomic_words";

struct alignas(64) request {
  std::uint64_t at;  // as the GPU names it
  wqe::word_change change;
  std::uint64_t old;  // the answer
};

struct batch {
  request requests[MOST];
  alignas(64) std::uint32_t done;  // the launch that has ended last
};

// The kernel's only parameter. Addresses as the GPU names them.
struct arguments {
  batch* shared;
  std::uint32_t count;
  std::uint32_t number;  // of the launch
};

static_assert(sizeof(request) == 64 && sizeof(arguments) == 16);

}  // namespace lci::cuda::atomic_layout
