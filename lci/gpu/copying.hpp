// Copies between places that a thread reaches itself: the whole transfer where memory is mapped.
// Callers: put and get of this room. Threads: all members of a scope together; each copies its
// share. Always true: reads and writes the bytes that it is given and no others; 4 or 8 bytes at
// places that are aligned to them are one load and one store, so a poller sees the word whole;
// other sizes go 16 bytes at a time where both ends can be aligned alike. No barrier is here.
#pragma once

#include <cstdint>
#include <cstring>

#include "lci/gpu/access.hpp"
#include "lci/gpu/scope.hpp"

namespace lci::gpu {

// Whether the source is written by others meanwhile: then no cached copy of it is read.
enum class source { own, others };

#ifdef __CUDA_ARCH__
namespace detail {

template <source From, class T>
__device__ T load_of(const T* at) {
  if constexpr (From == source::others) return __ldcv(at);
  return *at;
}

// `count` words, several loads on their way at once.
template <class Scope, source From, class T>
__device__ void copy_words(T* to, const T* from, std::uint64_t count) {
  const std::uint64_t stride = Scope::size();
  std::uint64_t i = Scope::index();
  for (; i + 3 * stride < count; i += 4 * stride) {
    const T a = load_of<From>(from + i), b = load_of<From>(from + i + stride);
    const T c = load_of<From>(from + i + 2 * stride), d = load_of<From>(from + i + 3 * stride);
    to[i] = a;
    to[i + stride] = b;
    to[i + 2 * stride] = c;
    to[i + 3 * stride] = d;
  }
  for (; i < count; i += stride) to[i] = load_of<From>(from + i);
}

// The bytes before the first aligned one, whole words, and the rest.
template <class Scope, source From, class T>
__device__ void copy_aligned_alike(unsigned char* to, const unsigned char* from,
                                   std::uint64_t size) {
  const std::uint64_t before = (sizeof(T) - reinterpret_cast<std::uintptr_t>(to)) % sizeof(T);
  const std::uint64_t head = before < size ? before : size;
  const std::uint64_t words = (size - head) / sizeof(T), done = head + words * sizeof(T);
  copy_words<Scope, From>(to, from, head);
  copy_words<Scope, From>(reinterpret_cast<T*>(to + head), reinterpret_cast<const T*>(from + head),
                          words);
  copy_words<Scope, From>(to + done, from + done, size - done);
}

}  // namespace detail
#endif

LCI_ANYWHERE inline bool both_aligned(const void* a, const void* b, unsigned to) noexcept {
  return ((reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b)) & (to - 1)) ==
         0;
}

// Relaxed: what orders it is the fence or the signal behind it.
template <source From, class T>
LCI_ANYWHERE void copy_word(void* to, const void* from) noexcept {
  const T* const word = static_cast<const T*>(from);
  wqe::word_at<T>(static_cast<T*>(to))
      .store(From == source::own ? *word : look_at(word), std::memory_order_relaxed);
}

template <class Scope, source From>
LCI_ANYWHERE_ONCE void copy_bytes(void* to, const void* from, std::uint64_t size) noexcept {
#ifdef __CUDA_ARCH__
  auto* const t = static_cast<unsigned char*>(to);
  const auto* const f = static_cast<const unsigned char*>(from);
  const std::uintptr_t apart =
      reinterpret_cast<std::uintptr_t>(to) ^ reinterpret_cast<std::uintptr_t>(from);
  if (apart % 16 == 0) {
    detail::copy_aligned_alike<Scope, From, uint4>(t, f, size);
  } else if (apart % 4 == 0) {
    detail::copy_aligned_alike<Scope, From, unsigned>(t, f, size);
  } else {
    detail::copy_words<Scope, From>(t, f, size);
  }
#else
  std::memmove(to, from, size);
#endif
}

template <class Scope, source From>
LCI_ANYWHERE void copy(void* to, const void* from, std::uint64_t size) noexcept {
  if (size == 8 && both_aligned(to, from, 8)) {
    if (Scope::index() == 0) copy_word<From, std::uint64_t>(to, from);
  } else if (size == 4 && both_aligned(to, from, 4)) {
    if (Scope::index() == 0) copy_word<From, std::uint32_t>(to, from);
  } else if (size != 0) {
    copy_bytes<Scope, From>(to, from, size);
  }
}

}  // namespace lci::gpu
