// What lanes of a warp do together, on a GPU. Callers: together.hpp and quiet(), with these or with
// what a test has in their place. Threads: the lanes that a mask names, each with the same mask.
// Always true: what a lane wrote before sync() is ordered before what the others do after it;
// shuffle() orders no memory.
#pragma once

#include <cstdint>

#include "lci/wqe/anywhere.hpp"

namespace lci::gpu::detail {

LCI_ANYWHERE inline std::uint32_t count_of(unsigned mask) noexcept {
#ifdef __CUDA_ARCH__
  return static_cast<std::uint32_t>(__popc(mask));
#else
  return static_cast<std::uint32_t>(__builtin_popcount(mask));
#endif
}
// Of a mask that is not empty.
LCI_ANYWHERE inline unsigned lowest_of(unsigned mask) noexcept {
#ifdef __CUDA_ARCH__
  return static_cast<unsigned>(__ffs(static_cast<int>(mask))) - 1;
#else
  return static_cast<unsigned>(__builtin_ctz(mask));
#endif
}
LCI_ANYWHERE inline unsigned highest_of(unsigned mask) noexcept {
#ifdef __CUDA_ARCH__
  return 31 - static_cast<unsigned>(__clz(static_cast<int>(mask)));
#else
  return 31 - static_cast<unsigned>(__builtin_clz(mask));
#endif
}

#ifdef __CUDA_ARCH__
struct gpu_lanes {
  __device__ static unsigned number() noexcept {
    unsigned n;
    asm("mov.u32 %0, %%laneid;" : "=r"(n));
    return n;
  }
  // Those that are here at the same time with the same pointer.
  __device__ static unsigned here_with(const void* at) noexcept {
    return __match_any_sync(__activemask(),
                            static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(at)));
  }
  __device__ static unsigned ballot(unsigned mask, bool says) noexcept {
    return __ballot_sync(mask, says);
  }
  template <class T>
  __device__ static T shuffle(unsigned mask, T value, unsigned from) noexcept {
    return __shfl_sync(mask, value, static_cast<int>(from));
  }
  __device__ static void sync(unsigned mask) noexcept { __syncwarp(mask); }
};
#endif

}  // namespace lci::gpu::detail
