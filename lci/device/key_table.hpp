// The memory that a card in software may touch, by the keys that work requests name. Callers: host
// threads that register, card_queue, receiver and memory_world that resolve. Threads: shared.
// Always true: a key names one region for good: a key that was taken back, guessed or damaged finds
// nothing; what is resolved lies wholly inside its region. As with ibv_dereg_mr(), a caller that
// takes a region back sees to it that no request names it any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace lci::device {

enum access : unsigned {
  READ = 0,
  WRITE = 1,
  REMOTE_READ = 2,
  REMOTE_WRITE = 4,
  REMOTE_ATOMIC = 8
};

struct region {
  std::byte* base = nullptr;
  std::uint64_t length = 0;
  unsigned allowed = READ;     // any of `access`; reading for own requests always is
  bool is_zero_based = false;  // addresses are offsets
};

// Whether [address, address + length) is inside of `size` bytes from `begin` on.
constexpr bool is_inside(std::uint64_t address, std::uint64_t length, std::uint64_t begin,
                         std::uint64_t size) noexcept {
  // In this order no sum runs over.
  return address >= begin && address - begin <= size && length <= size - (address - begin);
}

class key_table {
 public:
  std::uint32_t add(const region& what) {
    const std::lock_guard lock(mutex_);
    std::size_t slot = 0;
    while (slot < slots_.size() && (slots_[slot].is_live || slots_[slot].generation == LAST))
      ++slot;
    if (slot == slots_.size()) slots_.push_back({});
    slots_[slot].what = what;
    slots_[slot].is_live = true;
    return key_of(slot);
  }
  void remove(std::uint32_t key) {
    const std::lock_guard lock(mutex_);
    if (entry* const found = find_locked(key)) {
      found->is_live = false;
      ++found->generation;
    }
  }
  // Where [address, address + length) is, or null: no such key, not all inside, or not allowed.
  std::byte* resolve(std::uint32_t key, std::uint64_t address, std::uint64_t length,
                     unsigned wanted) {
    const std::lock_guard lock(mutex_);
    const entry* const found = find_locked(key);
    if (found == nullptr) return nullptr;
    const region& r = found->what;
    const std::uint64_t begin = r.is_zero_based ? 0 : reinterpret_cast<std::uintptr_t>(r.base);
    if ((r.allowed & wanted) != wanted || !is_inside(address, length, begin, r.length))
      return nullptr;
    return r.base + (address - begin);
  }

 private:
  static constexpr std::uint8_t LAST = 0xff;  // a slot is not used again when its numbers are out
  struct entry {
    region what;
    std::uint8_t generation = 1;  // so that 0, and INVALID_LKEY, name nothing
    bool is_live = false;
  };
  std::uint32_t key_of(std::size_t slot) const {
    return static_cast<std::uint32_t>((slot + 2) << 8 | slots_[slot].generation);
  }
  // mutex_ is held.
  entry* find_locked(std::uint32_t key) {
    const std::size_t slot = std::size_t{key >> 8} - 2;
    if (slot >= slots_.size()) return nullptr;
    entry& e = slots_[slot];
    return e.is_live && e.generation == (key & 0xff) ? &e : nullptr;
  }

  std::mutex mutex_;  // guards slots_
  std::vector<entry> slots_;
};

}  // namespace lci::device
