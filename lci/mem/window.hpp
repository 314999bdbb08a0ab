// Where this process can see packets: its own arena, and the peers' arenas that are mapped here
// (views), whose packets it borrows. One address range spans them all, so that a post can tell with
// one comparison that its buffer is no packet. Nothing is reserved: the range is chosen where the
// system places nothing by itself, and a foreign mapping that lands there all the same is found out
// by the second check, is_view(). Why: docs/decisions/0009-window-over-packets.md.
//
// Owned by the arena; called by code that maps a peer's arena, and by posts. Threads: shared;
// start() is single. Always true: a view that was added lies wholly in the range, which only ever
// grows.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace lci::mem {

class window {
 public:
  // Room for views below the arena: 256 of the usual size.
  static constexpr std::uintptr_t ROOM = std::uintptr_t{4} << 40;

  // Sets the range to the arena itself.
  void start(const void* own, std::size_t size) noexcept;
  // Where the next view should be mapped; null if there is no room left. A hint for the system.
  void* place_for(std::size_t size) const noexcept;
  // A view of a peer's arena is mapped at `at`. False: it lies outside the range (or memory is
  // short), so nothing may be borrowed from there.
  [[nodiscard]] bool add(const void* at, std::size_t size) noexcept;
  // A view is about to be unmapped.
  void remove(const void* at) noexcept;

  // Payloads apart from their packets (payload_pool) lie there: the range grows to hold them.
  void widen(const void* at, std::size_t size) noexcept;

  // False: p is in no packet. True: it may be in one.
  bool covers(const void* p) const noexcept {
    // edge window.widen: a new low end is never seen with an old span; partner is widen().
    const std::uintptr_t low = low_.load(std::memory_order_acquire);
    return reinterpret_cast<std::uintptr_t>(p) - low < span_.load(std::memory_order_relaxed);
  }
  // True if p lies in a view; takes a lock.
  bool is_view(const void* p) const noexcept;

 private:
  struct view {
    std::uintptr_t at;
    std::size_t size;
  };
  std::atomic<std::uintptr_t> low_{0};
  std::atomic<std::size_t> span_{0};
  std::uintptr_t own_low_ = 0;  // of arena and views, which payloads do not change
  std::size_t own_span_ = 0;
  mutable std::mutex mutex_;
  std::uintptr_t next_ = 0;  // end of the room that no view has used; under mutex_
  std::vector<view> views_;  // under mutex_
};

// Maps an arena's file where its window has nothing else in it, if the system allows, else
// anywhere. On failure MAP_FAILED, with errno set.
void* map_with_room(std::size_t size, int fd) noexcept;

}  // namespace lci::mem
