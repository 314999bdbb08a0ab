// A bounded first-in-first-out ring with its elements in place. Completion queues are made of it
// (see mpmc_queue).
//
// Threads: shared, any number of producers and consumers. One compare-and-swap per element on each
// side; looking into an empty or full ring writes nothing.
//
// Always true: cell i is used by the positions i, i + capacity, i + 2 capacity ...; its turn is 2k
// while it waits for the producer of round k and 2k + 1 while it holds that element. So fresh
// memory, all zero, is a ring that is ready, and large rings cost memory only as far as they are
// used. A closed ring accepts no element ever again.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#include "lci/base/platform.hpp"

namespace lci::data {

enum class push_result { pushed, full, closed };

template <class T>
class mpmc_ring {
  static_assert(std::is_trivially_copyable_v<T>,
                "elements are copied while others look at the ring");

 public:
  // `capacity` is rounded up to a power of two. Throws std::bad_alloc.
  explicit mpmc_ring(std::size_t capacity)
      : shift_(static_cast<unsigned>(std::bit_width(std::bit_ceil(capacity)) - 1)),
        memory_(std::calloc(1, (std::size_t{1} << shift_) * sizeof(cell) + alignof(cell))) {
    if (memory_ == nullptr) throw std::bad_alloc();
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    cells_ = reinterpret_cast<cell*>(base::align_up(address, alignof(cell)));
    if constexpr (HAS_LARGE_ATOMICS)
      for (std::size_t i = 0; i < this->capacity(); ++i)
        ::new (static_cast<void*>(cells_ + i)) cell{};
  }
  ~mpmc_ring() {
    if constexpr (HAS_LARGE_ATOMICS)
      for (std::size_t i = 0; i < capacity(); ++i) cells_[i].~cell();
  }
  mpmc_ring(const mpmc_ring&) = delete;
  mpmc_ring& operator=(const mpmc_ring&) = delete;

  std::size_t capacity() const noexcept { return std::size_t{1} << shift_; }

  push_result try_push(const T& value) noexcept {
    std::uint64_t at = tail_.load(std::memory_order_relaxed);
    for (;;) {
      if (at & CLOSED) [[unlikely]]
        return push_result::closed;
      cell& c = cells_[at & (capacity() - 1)];
      const std::uint64_t round = at >> shift_;
      // edge mpmc_ring.free, reader: the consumer of the round before has copied its element out.
      const std::uint64_t turn = c.turn.load(std::memory_order_acquire);
      if (turn == 2 * round) {
        // Relaxed: the cell's turn orders the element, the index only hands out positions.
        if (tail_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
          c.value = value;
          // edge mpmc_ring.publish, writer.
          c.turn.store(2 * round + 1, std::memory_order_release);
          return push_result::pushed;
        }
      } else {
        const std::uint64_t now = tail_.load(std::memory_order_relaxed);
        // The same position and still not our turn: the element of the round before is there, or is
        // being taken.
        if (now == at && turn < 2 * round) return push_result::full;
        at = now;
      }
    }
  }

  // False: empty, or the next element is not complete yet.
  bool try_pop(T& out) noexcept {
    std::uint64_t at = head_.load(std::memory_order_relaxed);
    for (;;) {
      cell& c = cells_[at & (capacity() - 1)];
      const std::uint64_t round = at >> shift_;
      // edge mpmc_ring.publish, reader.
      const std::uint64_t turn = c.turn.load(std::memory_order_acquire);
      if (turn == 2 * round + 1) {
        if (head_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
          out = c.value;
          // edge mpmc_ring.free, writer.
          c.turn.store(2 * (round + 1), std::memory_order_release);
          return true;
        }
      } else {
        const std::uint64_t now = head_.load(std::memory_order_relaxed);
        if (now == at) return false;
        at = now;
      }
    }
  }

  // No push succeeds after this. Elements inside stay.
  // edge mpmc_ring.close, writer: what the closer did before is visible to a thread that finds the
  // ring exhausted.
  void close() noexcept { tail_.fetch_or(CLOSED, std::memory_order_release); }

  // Closed, and every element that was ever accepted has been claimed by a consumer.
  bool is_exhausted() const noexcept {
    // edge mpmc_ring.close, reader.
    const std::uint64_t tail = tail_.load(std::memory_order_acquire);
    // A closed tail does not move any more, and the head never passes it.
    return (tail & CLOSED) != 0 && head_.load(std::memory_order_relaxed) == (tail & ~CLOSED);
  }

  // Positions given to producers and not yet to consumers. A snapshot, which may be off while
  // others work.
  std::size_t size() const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed) & ~CLOSED;
    return tail > head ? static_cast<std::size_t>(tail - head) : 0;
  }

 private:
  // A bit of the index that producers swap, so that closing and pushing cannot cross.
  static constexpr std::uint64_t CLOSED = std::uint64_t{1} << 63;

  // Up to a cache line, cells do not straddle lines; an element of 40 bytes gets a line of its own.
  static constexpr std::size_t CELL_ALIGN = std::max(
      alignof(std::atomic<std::uint64_t>),
      sizeof(T) + 8 > base::CACHE_LINE / 2 ? base::CACHE_LINE : std::bit_ceil(sizeof(T) + 8));
  // Of two specifiers that depend on T, gcc 12 takes the last one, not the stricter one.
  struct alignas(CELL_ALIGN) cell {
    std::atomic<std::uint64_t> turn;
    T value;
  };
  static_assert(alignof(cell) == CELL_ALIGN && sizeof(cell) % CELL_ALIGN == 0);
  // Those of tests/interleavings are more than their value, so zero is none.
  static constexpr bool HAS_LARGE_ATOMICS =
      sizeof(std::atomic<std::uint64_t>) != sizeof(std::uint64_t);
  struct free_memory {
    void operator()(void* p) const noexcept { std::free(p); }
  };

  const unsigned shift_;
  const std::unique_ptr<void, free_memory> memory_;
  cell* cells_;
  alignas(base::CACHE_LINE) std::atomic<std::uint64_t> tail_{
      0};  // next position of a producer, and CLOSED
  alignas(base::CACHE_LINE) std::atomic<std::uint64_t> head_{0};  // next position of a consumer
};

}  // namespace lci::data
