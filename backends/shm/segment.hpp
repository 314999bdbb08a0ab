// A peer's arena as this process sees it. Turns an offset that came from the peer into an address,
// or into nothing. Callers: connect (makes it), device and stream (resolve). Threads: resolve()
// shared; set-up single. Always true: what resolve() answers lies wholly inside the peer's file at
// that time, and arenas never shrink.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lci/mem/arena.hpp"

namespace lci::shm {

class segment {
 public:
  segment() = default;
  ~segment();
  segment(const segment&) = delete;
  segment& operator=(const segment&) = delete;

  // Maps `reserve` bytes of the file, as a view that `home`, our arena, knows, and takes the
  // descriptor over. Throws backend_error, and has then done nothing.
  void map(int fd, std::uint64_t reserve, mem::arena& home);
  // Our own arena, for messages to ourselves.
  void use(const mem::arena& own) noexcept;

  // The address of [offset, offset + size), or null if that is misaligned, empty at 0 or not
  // inside.
  std::byte* resolve(std::uint64_t offset, std::size_t size, std::size_t align) noexcept {
    if (offset == 0 || offset % align != 0) return nullptr;
    // Relaxed: only grows, and a stale value costs a system call, no more.
    if (offset > size_.load(std::memory_order_relaxed) ||
        size > size_.load(std::memory_order_relaxed) - offset) {
      if (!refresh(offset, size)) return nullptr;
    }
    return base_ + offset;
  }
  template <class T>
  T* resolve_as(std::uint64_t offset) noexcept {
    return reinterpret_cast<T*>(resolve(offset, sizeof(T), alignof(T)));
  }
  bool is_mapped() const noexcept { return base_ != nullptr; }
  bool is_own() const noexcept { return own_; }
  // Packets that lie here are known for such when the program posts them onward, so they may be
  // given to it.
  bool is_in_window() const noexcept { return is_in_window_; }

 private:
  bool refresh(std::uint64_t offset, std::size_t size) noexcept;

  mem::arena* home_ = nullptr;
  std::byte* base_ = nullptr;
  std::size_t reserve_ = 0;             // bytes mapped
  std::atomic<std::uint64_t> size_{0};  // of the file when last seen, at most reserve_
  int fd_ = -1;                         // kept to ask for the size again
  bool own_ = false;
  bool is_in_window_ = false;
};

}  // namespace lci::shm
