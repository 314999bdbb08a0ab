// Which threads make a call together: one thread, a warp, or a block. Of a scope one member, the
// leader, decides and posts with its own arguments; what it decided is told to all.
// Callers: the calls of this room, and kernels, which name a scope. Threads: all members of a scope
// make the same call, like a barrier; all calls with scope block of one block are made in one
// order. Always true: a call begins and ends with a barrier of its scope, so what members wrote
// before is covered by it, and what it brought is seen by all of them behind it; where members'
// arguments differ the leader's count; on a processor each scope is one thread. The block's words
// are written between two barriers, so no two calls mix in them.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lci/wqe/anywhere.hpp"

// Marks what a kernel calls instead of having a copy of it at each place: whole waits and loops. So
// a kernel with many calls stays small, and compiles in seconds.
#ifdef __CUDACC__
#define LCI_ANYWHERE_ONCE __host__ __device__ __noinline__
#else
#define LCI_ANYWHERE_ONCE
#endif

namespace lci::gpu {

#ifdef __CUDACC__
namespace detail {

// The most that a leader tells.
inline constexpr unsigned TOLD_WORDS = 24;

// Of the thread in its block, as warps are cut.
__device__ inline unsigned index_in_block() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
__device__ inline unsigned threads_of_block() { return blockDim.x * blockDim.y * blockDim.z; }
// The lanes that the warp has: the last one of a block may have fewer than 32.
__device__ inline unsigned lanes_of_warp() {
  const unsigned rest = threads_of_block() - (index_in_block() & ~31u);
  return rest < 32 ? rest : 32;
}
__device__ inline unsigned warp_mask() { return ~0u >> (32 - lanes_of_warp()); }
__device__ inline std::uint32_t* words_of_block() {
  __shared__ std::uint32_t words[TOLD_WORDS];
  return words;
}

}  // namespace detail
#endif

// A thread alone. On a GPU its posts are joined with those that other lanes of its warp make at the
// same time.
struct thread {
  LCI_ANYWHERE static unsigned index() noexcept { return 0; }
  LCI_ANYWHERE static unsigned size() noexcept { return 1; }
  LCI_ANYWHERE static void barrier() noexcept {}
  template <class T>
  LCI_ANYWHERE static T from_leader(const T& value) noexcept {
    return value;
  }
};

// All lanes of a warp that the block has.
struct warp {
  LCI_ANYWHERE static unsigned index() noexcept {
#ifdef __CUDA_ARCH__
    return detail::index_in_block() & 31u;
#else
    return 0;
#endif
  }
  LCI_ANYWHERE static unsigned size() noexcept {
#ifdef __CUDA_ARCH__
    return detail::lanes_of_warp();
#else
    return 1;
#endif
  }
  LCI_ANYWHERE static void barrier() noexcept {
#ifdef __CUDA_ARCH__
    __syncwarp(detail::warp_mask());
#endif
  }
  template <class T>
  LCI_ANYWHERE static T from_leader(const T& value) noexcept {
    static_assert(std::is_trivially_copyable<T>::value, "it goes from lane to lane in words");
#ifdef __CUDA_ARCH__
    constexpr unsigned WORDS = (sizeof(T) + 3) / 4;
    std::uint32_t words[WORDS] = {};
    std::memcpy(words, &value, sizeof(T));
    for (unsigned i = 0; i < WORDS; ++i) words[i] = __shfl_sync(detail::warp_mask(), words[i], 0);
    __syncwarp(detail::warp_mask());  // a shuffle orders no memory
    T told = value;
    std::memcpy(&told, words, sizeof(T));
    return told;
#else
    return value;
#endif
  }
};

// All threads of a block.
struct block {
  LCI_ANYWHERE static unsigned index() noexcept {
#ifdef __CUDA_ARCH__
    return detail::index_in_block();
#else
    return 0;
#endif
  }
  LCI_ANYWHERE static unsigned size() noexcept {
#ifdef __CUDA_ARCH__
    return detail::threads_of_block();
#else
    return 1;
#endif
  }
  LCI_ANYWHERE static void barrier() noexcept {
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
  }
  // A barrier comes before it, since the last one.
  template <class T>
  LCI_ANYWHERE static T from_leader(const T& value) noexcept {
    static_assert(std::is_trivially_copyable<T>::value, "it goes through shared memory");
#ifdef __CUDA_ARCH__
    static_assert(sizeof(T) <= detail::TOLD_WORDS * 4, "the block's words");
    std::uint32_t* const words = detail::words_of_block();
    if (index() == 0) std::memcpy(words, &value, sizeof(T));
    __syncthreads();
    T told = value;
    std::memcpy(&told, words, sizeof(T));
    return told;
#else
    return value;
#endif
  }
};

// Has the leader act, and tells all members what it returned. A barrier of the scope comes before
// and behind.
template <class Scope, class Act>
LCI_ANYWHERE auto by_leader(Act act) noexcept -> decltype(act()) {
  decltype(act()) said{};
  Scope::barrier();
  if (Scope::index() == 0) said = act();
  return Scope::from_leader(said);
}

}  // namespace lci::gpu
