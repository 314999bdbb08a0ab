// A growing array whose elements never move: chunks that double in size behind a fixed directory.
// Used by the registry of remote completions and by the slot table.
//
// Threads: shared. find() is wait-free: two loads; grow_to() takes a lock. What threads may do with
// the elements is up to their type.
//
// Always true: an element that was found once stays at its address until the array is destroyed;
// new elements are value-initialised.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "lci/base/spinlock.hpp"

namespace lci::data {

template <class T, std::uint32_t FIRST_CHUNK = 64>
class stable_array {
  static_assert(std::has_single_bit(FIRST_CHUNK));

 public:
  // Chunk k holds FIRST_CHUNK << k elements, so that this many chunks cover every 32-bit index
  // below max_size().
  static constexpr unsigned CHUNKS = 32 - std::countr_zero(FIRST_CHUNK);
  static constexpr std::uint64_t max_size() noexcept {
    return (std::uint64_t{1} << 32) - FIRST_CHUNK;
  }

  stable_array() = default;
  stable_array(const stable_array&) = delete;
  stable_array& operator=(const stable_array&) = delete;
  ~stable_array() {
    for (auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
  }

  // Element `index`, or null if the array never grew that far. Any index may be asked for, even a
  // forged one.
  T* find(std::uint32_t index) const noexcept {
    if (index < FIRST_CHUNK) [[likely]] {
      T* const first = chunks_[0].load(std::memory_order_acquire);  // edge stable_array.chunk
      return first == nullptr ? nullptr : first + index;
    }
    const place at = place_of(index);
    if (at.chunk >= CHUNKS) return nullptr;
    // edge stable_array.chunk, reader: the chunk's elements are initialised before its address can
    // be read.
    T* const chunk = chunks_[at.chunk].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : chunk + at.offset;
  }

  // Element `index`, made together with its chunk if need be; index < max_size(). Throws
  // std::bad_alloc.
  T& grow_to(std::uint32_t index) {
    const place at = place_of(index);
    // edge stable_array.chunk, reader, both times.
    if (chunks_[at.chunk].load(std::memory_order_acquire) == nullptr) grow(at.chunk);
    return chunks_[at.chunk].load(std::memory_order_acquire)[at.offset];
  }

 private:
  struct place {
    unsigned chunk;
    std::uint32_t offset;
  };
  // The highest bit of index + FIRST_CHUNK gives the chunk; the bits below it give the place in the
  // chunk.
  static constexpr place place_of(std::uint32_t index) noexcept {
    const std::uint64_t shifted = std::uint64_t{index} + FIRST_CHUNK;
    const int top = std::bit_width(shifted) - 1;
    return {static_cast<unsigned>(top - std::countr_zero(FIRST_CHUNK)),
            static_cast<std::uint32_t>(shifted - (std::uint64_t{1} << top))};
  }

  void grow(unsigned k) {
    // Made outside the lock, which is never held across an allocation; the loser of a race discards
    // its chunk.
    std::unique_ptr<T[]> fresh(new T[std::size_t{FIRST_CHUNK} << k]());
    const std::lock_guard guard(growing_);
    if (chunks_[k].load(std::memory_order_relaxed) == nullptr) {
      // edge stable_array.chunk, writer.
      chunks_[k].store(fresh.release(), std::memory_order_release);
    }
  }

  std::array<std::atomic<T*>, CHUNKS> chunks_{};
  base::spinlock growing_;
};

}  // namespace lci::data
