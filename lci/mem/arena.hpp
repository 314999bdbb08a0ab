// Owns one range of addresses backed by a memory file, which grows on demand and which local peers map as a whole.
// Packets, lanes and whatever else peers read live here; between processes they are named by their offset.
// Threads: allocate(), free(), contains() shared; construction and destruction single.
// Always true: [base, base + reserved) never moves; bytes below committed() are backed; offset 0 is never handed out, so 0 means "none".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "lci/base/platform.hpp"

namespace lci::mem {

class arena {
 public:
  // Address space to reserve; costs nothing until used.
  static constexpr std::size_t DEFAULT_RESERVE = std::size_t{16} << 30;

  explicit arena(std::size_t reserve = DEFAULT_RESERVE);  // throws backend_error
  ~arena();
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  // Zeroed when the bytes are fresh from the system, otherwise as their last owner left them. Throws std::bad_alloc past `reserve`.
  void* allocate(std::size_t size, std::size_t align = base::CACHE_LINE);
  void free(void* p, std::size_t size) noexcept;  // size as given to allocate()

  bool contains(const void* p) const noexcept {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(base_) < reserve_;
  }
  std::uint64_t offset_of(const void* p) const noexcept {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - base_);
  }
  std::byte* at(std::uint64_t offset) const noexcept { return base_ + offset; }

  int fd() const noexcept { return fd_; }  // the memory file; peers get a duplicate
  std::size_t reserved() const noexcept { return reserve_; }
  std::size_t committed() const noexcept;  // bytes backed so far

 private:
  std::byte* base_ = nullptr;
  std::size_t reserve_ = 0;
  int fd_ = -1;
  mutable std::mutex mutex_;
  std::size_t committed_ = 0;                        // file size
  std::size_t used_ = 0;                             // bump pointer
  std::map<std::size_t, std::vector<void*>> freed_;  // by size: blocks to hand out again
};

}  // namespace lci::mem
