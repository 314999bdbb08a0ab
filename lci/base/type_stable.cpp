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

type_stable_pool::type_stable_pool(std::uint64_t type, std::size_t bytes, std::size_t alignment)
    : type_(type),
      alignment_(std::max(alignment, CACHE_LINE)),
      link_offset_(align_up(bytes, alignof(link))),
      slot_bytes_(align_up(link_offset_ + sizeof(link), alignment_)) {}

type_stable_pool& type_stable_pool::of(std::uint64_t type, std::size_t bytes,
                                       std::size_t alignment) {
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
  auto* const pool = new type_stable_pool(type, bytes, alignment);
  pool->next_ = all.head.load(std::memory_order_relaxed);
  // edge pool_registry.publish, writer.
  all.head.store(pool, std::memory_order_release);
  return *pool;
}

void* type_stable_pool::allocate() {
  const std::lock_guard guard(lock_);
  if (free_count_ <= QUARANTINE) return carve_locked();
  void* const slot = oldest_;
  oldest_ = link_of(slot)->next;
  --free_count_;
  return slot;
}

void* type_stable_pool::carve_locked() {
  if (chunk_used_ == chunk_slots_) {
    const std::size_t slots = std::max<std::size_t>(4, CHUNK_BYTES / slot_bytes_);
    const std::size_t bytes = slots * slot_bytes_;
    auto* const chunk =
        static_cast<char*>(::operator new (bytes + sizeof(char*), std::align_val_t{alignment_}));
    std::memset(chunk, DEAD_BYTE, bytes);
    std::memcpy(chunk + bytes, &chunk_, sizeof chunk_);
    chunk_ = chunk;
    chunk_slots_ = slots;
    chunk_used_ = 0;
  }
  return chunk_ + slot_bytes_ * chunk_used_++;
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
  throw argument_error(std::string("argument ") + what + ": handle " + address +
                       (is_empty    ? " is empty"
                        : was_freed ? " was freed"
                                    : " names no live object of this type") +
                       "; expected a handle from an alloc call that was not freed yet");
}

}  // namespace detail
}  // namespace lci::base
