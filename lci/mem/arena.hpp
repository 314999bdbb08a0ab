// Owns one range of addresses backed by a memory file, which grows on demand and which local peers
// map as a whole. Packets, lanes and everything else that peers read live here; between processes
// they are named by their offset.
// Called by packet_pool, region_table and backends. Threads: allocate(), free(), contains() shared;
// construction and destruction single.
// Always true: [base, base + reserved) never moves; bytes below committed() are backed; offset 0 is
// never handed out, so 0 means "none"; a peer that has the file cannot shrink it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "lci/base/platform.hpp"
#include "lci/mem/payload_index.hpp"
#include "lci/mem/window.hpp"

namespace lci::mem {

class packet_home;

// The system calls an arena is built from; tests pass failing ones.
struct memory_file_calls {
  int (*create)() = nullptr;                         // a new empty file, or -1 with errno
  int (*resize)(int fd, off_t size) = nullptr;       // 0, or -1 with errno
  void* (*map)(std::size_t size, int fd) = nullptr;  // MAP_FAILED with errno
};
const memory_file_calls& system_memory_file_calls() noexcept;

class arena {
 public:
  // Address space to reserve; costs nothing until used.
  static constexpr std::size_t DEFAULT_RESERVE = std::size_t{16} << 30;
  // Where address space is limited (RLIMIT_AS), down to this much is accepted instead.
  static constexpr std::size_t LEAST_RESERVE = std::size_t{64} << 20;
  // An arena that shares a limited address space with those of peers is no smaller than this.
  static constexpr std::size_t LEAST_SHARE = std::size_t{16} << 20;
  // The file grows by doubling steps between these.
  static constexpr std::size_t FIRST_GROWTH = std::size_t{2} << 20;
  static constexpr std::size_t LARGEST_GROWTH = std::size_t{32} << 20;
  // Networks register the range span by span: a block no larger than a span lies within one span.
  static constexpr std::size_t SPAN = FIRST_GROWTH;

  // Throws backend_error.
  explicit arena(std::size_t reserve = DEFAULT_RESERVE,
                 const memory_file_calls& calls = system_memory_file_calls());
  ~arena();
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  // Zeroed when the bytes are fresh from the system, otherwise as their last owner left them.
  // Throws std::bad_alloc past reserved(), backend_error when the system refuses to grow the file.
  void* allocate(std::size_t size, std::size_t align = base::CACHE_LINE);
  void free(void* p, std::size_t size) noexcept;  // size as given to allocate()

  bool contains(const void* p) const noexcept {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(base_) < reserve_;
  }
  std::uint64_t offset_of(const void* p) const noexcept {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - base_);
  }
  // Where this process can see packets: here, and in the parts of peers' arenas that it maps.
  window& packet_window() noexcept { return window_; }
  const window& packet_window() const noexcept { return window_; }
  std::byte* at(std::uint64_t offset) const noexcept { return base_ + offset; }
  // The payloads, lying elsewhere, of packets in this arena.
  payload_index& payloads() noexcept { return payloads_; }
  const payload_index& payloads() const noexcept { return payloads_; }

  // The packet pools that live in this arena now; they enter and leave by themselves. Calls f(pool)
  // for each; none of them ends meanwhile. Pool: packet_pool, since nothing else is entered.
  template <class Pool, class F>
  void for_each(F&& f) {
    const std::lock_guard lock(pools_mutex_);
    for (packet_home* pool : pools_) f(static_cast<Pool&>(*pool));
  }
  void add_pool(packet_home& pool);
  void remove_pool(packet_home& pool) noexcept;

  // Bytes that are allocated now.
  std::size_t in_use() noexcept {
    const std::lock_guard lock(mutex_);
    return in_use_;
  }
  int fd() const noexcept { return fd_; }  // the memory file; peers get a duplicate
  std::size_t reserved() const noexcept { return reserve_; }
  // Bytes backed so far. edge arena.grow: a thread that is given an offset finds it backed; partner
  // is grow().
  std::size_t committed() const noexcept { return committed_.load(std::memory_order_acquire); }

 private:
  void* reuse(std::size_t size, std::size_t align);
  void grow(std::size_t needed);

  window window_;  // first: every post reads it
  memory_file_calls calls_;
  std::byte* base_ = nullptr;
  std::size_t reserve_ = 0;
  int fd_ = -1;
  std::atomic<std::size_t> committed_{0};  // file size; written under mutex_
  std::mutex mutex_;
  std::size_t used_ = 0;                             // bump pointer
  std::size_t in_use_ = 0;                           // of these, not freed
  std::size_t growth_ = FIRST_GROWTH;                // next step
  std::map<std::size_t, std::vector<void*>> freed_;  // by size: blocks to hand out again
  payload_index payloads_;
  std::mutex pools_mutex_;
  std::vector<packet_home*> pools_;  // under pools_mutex_
};

// A block that its destructor frees.
class arena_block {
 public:
  arena_block() = default;
  // As arena::allocate(). Throws what it throws.
  arena_block(arena& from, std::size_t size, std::size_t align = base::CACHE_LINE)
      : from_(&from), size_(size), at_(static_cast<std::byte*>(from.allocate(size, align))) {}
  ~arena_block() {
    if (at_ != nullptr) from_->free(at_, size_);
  }
  arena_block(arena_block&& other) noexcept
      : from_(other.from_), size_(other.size_), at_(std::exchange(other.at_, nullptr)) {}
  arena_block& operator=(arena_block&& other) noexcept {
    std::swap(from_, other.from_);
    std::swap(size_, other.size_);
    std::swap(at_, other.at_);
    return *this;
  }

  std::byte* get() const noexcept { return at_; }

 private:
  arena* from_ = nullptr;
  std::size_t size_ = 0;
  std::byte* at_ = nullptr;
};

}  // namespace lci::mem
