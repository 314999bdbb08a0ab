// Objects that are known by a name {slot, generation} instead of an address, because the name
// travels to peers and comes back in messages that may be late, repeated or forged. Multi-step
// protocols keep their states here.
//
// Threads: shared. find() is wait-free; insert() and erase() take a short lock. Two threads that
// hold the same name must agree between themselves which one erases: erase() returns true to
// exactly one, and no thread may use the object after that.
//
// Always true: a slot's generation is odd while it holds an object and grows by one at each insert
// and erase, so a name is valid from its insert to its erase and not again for 2^31 reuses of the
// slot. No heap once the table has been as large before.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include "lci/base/platform.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/data/stable_array.hpp"

namespace lci::data {

// Eight bytes on the wire. The value with generation 0 names nothing.
struct slot_name {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;

  constexpr std::uint64_t to_bits() const noexcept {
    return std::uint64_t{generation} << 32 | slot;
  }
  static constexpr slot_name from_bits(std::uint64_t bits) noexcept {
    return {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
  }
  friend constexpr bool operator==(slot_name, slot_name) = default;
};
static_assert(sizeof(slot_name) == 8);

template <class T>
class slot_table {
 public:
  struct inserted {
    slot_name name;
    T* object;
  };

  slot_table() noexcept : seed_(static_cast<std::uint32_t>(base::cpu_ticks())) {}
  slot_table(const slot_table&) = delete;
  slot_table& operator=(const slot_table&) = delete;
  ~slot_table() {
    for_each_st([](slot_name, T& object) { object.~T(); });
  }

  // Constructs a T in a free slot. Throws what T's constructor throws, or std::bad_alloc.
  template <class... Args>
  inserted insert(Args&&... args) {
    const std::uint32_t index = take_slot();
    slot& s = *slots_.find(index);
    T* object;
    try {
      object = ::new (s.storage) T(std::forward<Args>(args)...);
    } catch (...) {
      give_slot(s, index);
      throw;
    }
    const std::uint32_t generation = s.generation.load(std::memory_order_relaxed) + 1;
    // edge slot_table.live, writer: the object is complete before its name can be found.
    s.generation.store(generation, std::memory_order_release);
    return {{index, generation}, object};
  }

  // The object of that name, or null if it was erased, never existed, or the name is nonsense.
  T* find(slot_name name) const noexcept {
    slot* const s = live_slot(name);
    return s == nullptr ? nullptr : s->object();
  }

  // The name under which slot `index` holds an object now; generation 0 if it holds none. For short
  // names on the wire and for walking through the table.
  slot_name name_at(std::uint32_t index) const noexcept {
    slot* const s = slots_.find(index);
    // edge slot_table.live, reader.
    const std::uint32_t generation =
        s == nullptr ? 0 : s->generation.load(std::memory_order_acquire);
    return generation % 2 == 1 ? slot_name{index, generation} : slot_name{};
  }
  // How many slots exist: name_at() of any index beyond is empty.
  std::uint32_t slots() const noexcept {
    std::uint32_t n = 0;
    while (slots_.find(n) != nullptr) n += n < 32 ? 32 : n + 32;
    return n;
  }

  // Destroys the object of that name; false, and nothing done, if there is none.
  bool erase(slot_name name) noexcept {
    slot* const s = live_slot(name);
    if (s == nullptr) return false;
    std::uint32_t expected = name.generation;
    // edge slot_table.live, reader and writer: one of several erasers wins. Acquire: the object is
    // destroyed only after its name has ended.
    if (!s->generation.compare_exchange_strong(
            expected, name.generation + 1, std::memory_order_acq_rel, std::memory_order_relaxed))
      return false;
    s->object()->~T();
    give_slot(*s, name.slot);
    return true;
  }

  // Calls fn(name, object) for every object. No other thread may use the table meanwhile.
  template <class Fn>
  void for_each_st(Fn&& fn) {
    for (std::uint32_t i = 0; i < used_; ++i) {
      slot& s = *slots_.find(i);
      const std::uint32_t generation = s.generation.load(std::memory_order_relaxed);
      if (generation % 2 == 1) fn(slot_name{i, generation}, *s.object());
    }
  }

  // Objects in the table. A snapshot.
  std::uint32_t size() const noexcept { return size_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t NONE = ~std::uint32_t{0};

  struct slot {
    std::atomic<std::uint32_t> generation{0};
    std::uint32_t next_free = NONE;  // under lock_; index of the next free slot
    alignas(T) std::byte storage[sizeof(T)];
    T* object() noexcept { return std::launder(reinterpret_cast<T*>(storage)); }
  };

  slot* live_slot(slot_name name) const noexcept {
    if (name.generation % 2 == 0) return nullptr;
    slot* const s = slots_.find(name.slot);
    // edge slot_table.live, reader.
    if (s == nullptr || s->generation.load(std::memory_order_acquire) != name.generation)
      return nullptr;
    return s;
  }

  // Every table starts its generations at a different number: a name from a destroyed table, or a
  // guess, finds nothing.
  std::uint32_t first_generation(std::uint32_t index) const noexcept {
    std::uint32_t x = (index + 1) * 0x9E3779B9u ^ seed_;
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    return (x ^ x >> 13) & ~1u;
  }

  std::uint32_t take_slot() {
    std::uint32_t index;
    {
      const std::lock_guard guard(lock_);
      size_.store(size_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      index = first_free_;
      if (index != NONE) {
        first_free_ = slots_.find(index)->next_free;
        return index;
      }
      index = used_;
      if (slots_.find(index) != nullptr) {
        open_slot_locked();
        return index;
      }
      size_.store(size_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    }
    // Memory for the next chunk is allocated outside the lock; then the table is looked at anew.
    slots_.grow_to(index);
    return take_slot();
  }

  void open_slot_locked() noexcept {
    slots_.find(used_)->generation.store(first_generation(used_), std::memory_order_relaxed);
    ++used_;
  }

  void give_slot(slot& s, std::uint32_t index) noexcept {
    const std::lock_guard guard(lock_);
    s.next_free = first_free_;
    first_free_ = index;
    size_.store(size_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }

  stable_array<slot, 32> slots_;
  const std::uint32_t seed_;
  base::spinlock lock_;                 // guards the three below and next_free
  std::uint32_t first_free_ = NONE;     // last in, first out: a warm slot is used again first
  std::uint32_t used_ = 0;              // slots that were ever opened
  std::atomic<std::uint32_t> size_{0};  // written under lock_
};

}  // namespace lci::data
