// Where this process can see packets: its own arena, and those arenas of peers that are mapped here
// (views), whose packets it borrows. One range of addresses reaches over all of them, so that a
// post tells with one comparison that its buffer is no packet. The range may reach over other
// memory as well: views are asked to lie next to each other and away from the rest, but only the
// system decides. Owned by the arena; called by whoever maps a peer's arena, and by posts. Threads:
// shared; start() is single. Always true: a packet that a thread was handed lies in the range that
// this thread sees.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace lci::mem {

class window {
 public:
  // The arena itself.
  void start(const void* own, std::size_t size) noexcept;
  // Where the next view should be mapped: below everything so far. A hint for the system.
  void* place_for(std::size_t size) const noexcept;
  // A view of a peer's arena is mapped at `at`, and is about to be unmapped. Throws std::bad_alloc,
  // and nothing is added.
  void add(const void* at, std::size_t size);
  void remove(const void* at) noexcept;

  // False: p is in no packet. True: it may be in one.
  bool covers(const void* p) const noexcept {
    // edge window.range: this low end comes with a span that belongs to it or is larger; partner is
    // add().
    const std::uintptr_t low = low_.load(std::memory_order_acquire);
    return reinterpret_cast<std::uintptr_t>(p) - low < span_.load(std::memory_order_relaxed);
  }
  // True when p lies in a view; takes a lock.
  bool is_view(const void* p) const noexcept;

  // Where an arena should be mapped, away from what the system hands out by itself. Null: anywhere.
  static void* place_for_arena(std::size_t size) noexcept;

 private:
  struct view {
    std::uintptr_t at;
    std::size_t size;
  };
  // Written under mutex_. The range only grows: a view that is gone leaves its place in it.
  std::atomic<std::uintptr_t> low_{0};
  std::atomic<std::size_t> span_{0};
  mutable std::mutex mutex_;
  std::vector<view> views_;  // under mutex_
};

}  // namespace lci::mem
