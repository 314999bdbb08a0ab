// Pools behind make_live(): chunks from the heap that are kept for good, and a queue of freed
// slots per type.
#include "lci/base/type_stable.hpp"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <string>

#include "lci/errors.hpp"

namespace lci::base {
namespace {

// Never destroyed, so that static objects of the program may free handles in their destructors.
struct pool_registry {
  spinlock lock;                                 // serialises adding
  std::atomic<type_stable_pool*> head{nullptr};  // newest pool
};
pool_registry& registry() {
  static pool_registry* const only = new pool_registry;
  return *only;
}

constexpr std::size_t CHUNK_BYTES = 16 * 1024;

}  // namespace

type_stable_pool::type_stable_pool(std::uint64_t type, std::size_t bytes, std::size_t alignment,
                                   std::size_t quarantine, marker& mark)
    : type_(type),
      alignment_(std::max(alignment, CACHE_LINE)),
      quarantine_(quarantine),
      link_offset_(align_up(bytes, alignof(link))),
      slot_bytes_(align_up(link_offset_ + sizeof(link), alignment_)),
      chunk_slots_(std::max<std::size_t>(4, CHUNK_BYTES / slot_bytes_)),
      mark_(mark),
      chunk_used_(chunk_slots_) {}

type_stable_pool& type_stable_pool::of(std::uint64_t type, std::size_t bytes, std::size_t alignment,
                                       std::size_t quarantine, marker& mark) {
  pool_registry& all = registry();
  // edge pool_registry.publish, reader: pairs with the release store below; a pool is complete
  // before it can be found.
  for (type_stable_pool* p = all.head.load(std::memory_order_acquire); p != nullptr; p = p->next_)
    if (p->type_ == type) return *p;
  const std::lock_guard guard(all.lock);
  // Again under the lock: another thread may have added this type since. The lock orders its store
  // before this load.
  for (type_stable_pool* p = all.head.load(std::memory_order_relaxed); p != nullptr; p = p->next_)
    if (p->type_ == type) return *p;
  auto* const pool = new type_stable_pool(type, bytes, alignment, quarantine, mark);
  pool->next_ = all.head.load(std::memory_order_relaxed);
  // edge pool_registry.publish, writer.
  all.head.store(pool, std::memory_order_release);
  return *pool;
}

void* type_stable_pool::allocate() {
  const std::lock_guard guard(lock_);
  if (free_count_ <= quarantine_) return carve_locked();
  void* const slot = oldest_;
  oldest_ = link_of(slot)->next;
  --free_count_;
  return slot;
}

void* type_stable_pool::carve_locked() {
  if (chunk_used_ == chunk_slots_) {
    const std::size_t bytes = chunk_slots_ * slot_bytes_;
    auto* const chunk =
        static_cast<char*>(::operator new (bytes + sizeof(char*), std::align_val_t{alignment_}));
    std::memset(chunk, DEAD_BYTE, bytes);
    char* const before = chunk_.load(std::memory_order_relaxed);
    std::memcpy(chunk + bytes, &before, sizeof before);
    // edge type_stable.chunk, writer: a chunk that can be found is filled, and leads to the one
    // before. A fork may come at any moment.
    chunk_.store(chunk, std::memory_order_release);
    chunk_used_ = 0;
  }
  // Relaxed: changes under the lock only.
  return chunk_.load(std::memory_order_relaxed) + slot_bytes_ * chunk_used_++;
}

void type_stable_pool::expect_fork() { registry(); }

void type_stable_pool::orphan_all() noexcept {
  // No lock: a thread that held it does not exist here. edge pool_registry.publish, reader.
  for (type_stable_pool* p = registry().head.load(std::memory_order_acquire); p != nullptr;
       p = p->next_)
    p->orphan();
}

void type_stable_pool::orphan() noexcept {
  // edge type_stable.chunk, reader.
  for (char* chunk = chunk_.load(std::memory_order_acquire); chunk != nullptr;) {
    for (std::size_t i = 0; i < chunk_slots_; ++i) mark_(chunk + i * slot_bytes_);
    std::memcpy(&chunk, chunk + chunk_slots_ * slot_bytes_, sizeof chunk);
  }
}

void type_stable_pool::release(void* slot) noexcept {
  const std::lock_guard guard(lock_);
  link_of(slot)->next = nullptr;
  if (free_count_++ == 0)
    oldest_ = slot;
  else
    link_of(newest_)->next = slot;
  newest_ = slot;
}

namespace detail {

void throw_not_live(const void* object, const char* what, std::uint64_t magic) {
  std::uint64_t dead;
  std::memset(&dead, DEAD_BYTE, sizeof dead);
  const bool is_empty = reinterpret_cast<std::uintptr_t>(object) < 4096;
  const bool was_freed = magic == dead || magic == 0;
  char address[32];
  std::snprintf(address, sizeof address, "%p", object);
  if (magic == FORKED && !is_empty)
    throw argument_error(std::string("argument ") + what + ": handle " + address +
                         " is the parent's: " + FORKED_TEXT);
  throw argument_error(
      std::string("argument ") + what + ": handle " +
      (is_empty ? std::string("is empty")
                : address + std::string(was_freed ? " was freed"
                                                  : " names no live object of this type")) +
      "; expected a handle from an alloc call that was not freed yet");
}

}  // namespace detail
}  // namespace lci::base
