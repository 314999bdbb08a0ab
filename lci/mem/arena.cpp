// Memory file, address range and growth of an arena.
// Called at set-up and when pools or lanes grow, never per message. Threads: see the header.
#include "lci/mem/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "lci/errors.hpp"
#include "lci/mem/address_space.hpp"

namespace lci::mem {

namespace {

int create_file() {
  const int fd = memfd_create("lci-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  // A peer that shrank the file would kill this process at its next access. Old kernels without
  // seals merely lack that protection.
  if (fd >= 0) fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL);
  return fd;
}

[[noreturn]] LCI_COLD void fail(const char* call, std::size_t size, int error) {
  throw backend_error(std::string("shared memory arena: ") + call + " of " + std::to_string(size) +
                      " bytes failed: " + std::strerror(error) +
                      (error == ENOMEM ? limit_text(find_address_space()) : ""));
}

}  // namespace

const memory_file_calls& system_memory_file_calls() noexcept {
  static constexpr memory_file_calls calls{create_file, ftruncate, map_with_room};
  return calls;
}

arena::arena(std::size_t reserve, const memory_file_calls& calls)
    : calls_(calls), reserve_(base::align_up(reserve, FIRST_GROWTH)), used_(base::CACHE_LINE) {
  fd_ = calls_.create();
  if (fd_ < 0) fail("memfd_create for a range", reserve_, errno);
  // The whole range is mapped now, although the file is empty: growing it is then one call, and no
  // address ever moves. Pages beyond the end of the file cost nothing.
  void* where = calls_.map(reserve_, fd_);
  while (where == MAP_FAILED && reserve_ / 2 >= LEAST_RESERVE) {
    reserve_ = base::align_up(reserve_ / 2, FIRST_GROWTH);
    where = calls_.map(reserve_, fd_);
  }
  if (where == MAP_FAILED) {
    const int error = errno;
    close(fd_);
    fail("mmap", reserve_, error);
  }
  base_ = static_cast<std::byte*>(where);
  window_.start(base_, reserve_);
}

arena::~arena() {
  munmap(base_, reserve_);
  close(fd_);
}

// Under mutex_. Returns a freed block of exactly this size, or null.
void* arena::reuse(std::size_t size, std::size_t align) {
  const auto found = freed_.find(size);
  if (found == freed_.end()) return nullptr;
  auto& blocks = found->second;
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
    if (reinterpret_cast<std::uintptr_t>(*it) % align != 0) continue;
    void* const block = *it;
    blocks.erase(std::next(it).base());
    return block;
  }
  return nullptr;
}

// Under mutex_. Backs at least `needed` bytes from the start.
void arena::grow(std::size_t needed) {
  const std::size_t now = committed_.load(std::memory_order_relaxed);
  if (needed <= now) return;
  const std::size_t wanted = base::align_up(std::max(needed, now + growth_), FIRST_GROWTH);
  const std::size_t target = std::min(wanted, reserve_);
  if (calls_.resize(fd_, static_cast<off_t>(target)) != 0) fail("ftruncate to", target, errno);
  growth_ = std::min(growth_ * 2, LARGEST_GROWTH);
  // edge arena.grow: partner is committed().
  committed_.store(target, std::memory_order_release);
}

void* arena::allocate(std::size_t size, std::size_t align) {
  align = std::max(align, base::CACHE_LINE);
  if (size > reserve_ || align > reserve_) throw std::bad_alloc();
  size = base::align_up(std::max<std::size_t>(size, 1), base::CACHE_LINE);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (void* const block = reuse(size, align)) {
    in_use_ += size;
    return block;
  }
  // The base is page aligned, so up to a page it is enough to align offsets; beyond that, align
  // addresses.
  const auto start = reinterpret_cast<std::uintptr_t>(base_);
  std::size_t offset = base::align_up(start + used_, align) - start;
  if (size <= SPAN && offset / SPAN != (offset + size - 1) / SPAN)
    offset = base::align_up(start + base::align_up(offset, SPAN), align) - start;
  if (offset > reserve_ || size > reserve_ - offset) throw std::bad_alloc();
  grow(offset + size);
  used_ = offset + size;
  in_use_ += size;
  return base_ + offset;
}

void arena::add_pool(packet_home& pool) {
  const std::lock_guard<std::mutex> lock(pools_mutex_);
  pools_.push_back(&pool);
}

void arena::remove_pool(packet_home& pool) noexcept {
  const std::lock_guard<std::mutex> lock(pools_mutex_);
  std::erase(pools_, &pool);
}

void arena::free(void* p, std::size_t size) noexcept {
  if (p == nullptr) return;
  size = base::align_up(std::max<std::size_t>(size, 1), base::CACHE_LINE);
  const std::lock_guard<std::mutex> lock(mutex_);
  in_use_ -= size;
  try {
    freed_[size].push_back(p);
  } catch (const std::bad_alloc&) {
    // The block stays unused until the arena ends; nothing else is lost.
  }
}

}  // namespace lci::mem
