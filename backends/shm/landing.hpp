// How the bytes of puts and gets are written where they go. Callers: inbox, short_gets. Threads:
// the one that is inside the device's `polling`. Always true: a word of 4 or 8 bytes at an aligned
// place is one store.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lci/base/copy.hpp"

namespace lci::shm {

// A word that is put may be a signal that threads and kernels poll: it is one store, seen behind
// all that was put before.
inline void land(void* to, const std::byte* from, std::size_t size) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  if (size == sizeof(std::uint64_t) && address % size == 0) {
    std::uint64_t word;
    std::memcpy(&word, from, sizeof(word));
    // edge gpu.signal: partner is see() of lci/gpu.
    std::atomic_ref(*static_cast<std::uint64_t*>(to)).store(word, std::memory_order_release);
  } else if (size == sizeof(std::uint32_t) && address % size == 0) {
    std::uint32_t word;
    std::memcpy(&word, from, sizeof(word));
    // edge gpu.signal, likewise.
    std::atomic_ref(*static_cast<std::uint32_t*>(to)).store(word, std::memory_order_release);
  } else {
    base::copy_small(to, from, size);
  }
}

}  // namespace lci::shm
