// Objects that any thread takes and gives back often: a free list per thread, so that both are
// plain loads and stores. Threads: get(), put() shared; the destructor expects every object to have
// been put back (they are destroyed with their slabs in any case). Always true: objects are
// constructed once, when their slab is made, and keep their address until the pool ends. A list
// that grows past SPILL_AT (one thread takes, another gives) hands half of it to other threads
// under a lock, in one piece: following a list whose objects were last written by another core
// takes the time of one hand-over for each.
#pragma once

#include <array>
#include <cstddef>
#include <new>

#include "lci/base/platform.hpp"
#include "lci/base/race_point.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/base/thread_id.hpp"

namespace lci::data {

// T has a public member `T* pool_next`, which belongs to the pool while the object is in it, and a
// constructor that does not throw.
template <class T>
class object_pool {
 public:
  object_pool() = default;
  ~object_pool() {
    while (slabs_ != nullptr) {
      const slab* const last = slabs_;
      slabs_ = last->next;
      delete last;
    }
  }
  object_pool(const object_pool&) = delete;
  object_pool& operator=(const object_pool&) = delete;

  // Throws std::bad_alloc.
  T* get() {
    T* const object = try_get();
    if (object == nullptr) [[unlikely]]
      throw std::bad_alloc();
    return object;
  }
  // Null: there is no memory.
  T* try_get() noexcept { return try_get(base::thread_id()); }
  // id: of the calling thread, for callers that have asked for it already.
  T* try_get(std::uint32_t id) noexcept {
    if (id == base::OVERFLOW_THREAD) [[unlikely]]
      return get_shared();
    list& mine = lists_[id];
    if (mine.head == nullptr) [[unlikely]] {
      if (!refill(mine)) return nullptr;
    }
    return take_first(mine);
  }
  // One that the calling thread has at hand, without a call. Null: try_get() has to look. id:
  // below OVERFLOW_THREAD.
  T* try_get_at_hand(std::uint32_t id) noexcept {
    list& mine = lists_[id];
    return mine.head != nullptr ? take_first(mine) : nullptr;
  }

  void put(T* object) noexcept { put(object, base::thread_id()); }
  // id: of the calling thread, for callers that have asked for it already.
  void put(T* object, std::uint32_t id) noexcept {
    if (id == base::OVERFLOW_THREAD) [[unlikely]]
      return put_shared(object);
    list& mine = lists_[id];
    push(mine, object);
    if (mine.length > SPILL_AT) [[unlikely]]
      spill(mine);
  }
  // The same without a call. False: it was not given back, put() has to. id: as above.
  bool try_put_at_hand(T* object, std::uint32_t id) noexcept {
    list& mine = lists_[id];
    if (mine.length >= SPILL_AT) [[unlikely]]
      return false;
    push(mine, object);
    return true;
  }

 private:
  static constexpr std::size_t SLAB = 32;
  static constexpr std::size_t SPILL_AT = 128;
  static constexpr std::size_t PIECES = 64;  // what is more lies in one list
  struct alignas(base::CACHE_LINE) list {
    T* head = nullptr;
    std::size_t length = 0;
  };

  struct slab {
    T objects[SLAB];
    slab* next = nullptr;
  };

  // False: there is no memory.
  LCI_COLD bool refill(list& mine) noexcept {
    lock_.lock();
    if (pieces_ != 0) {
      mine = piece_list_[--pieces_];
      lock_.unlock();
      return true;
    }
    while (shared_.head != nullptr && mine.length < SLAB) move_one(shared_, mine);
    lock_.unlock();
    if (mine.head != nullptr) return true;
    LCI_RACE_POINT("object_pool.refill.before_allocation");
    auto* const made = new (std::nothrow) slab;
    if (made == nullptr) return false;
    for (T& object : made->objects) push(mine, &object);
    lock_.lock();
    made->next = slabs_;
    slabs_ = made;
    lock_.unlock();
    return true;
  }
  // What was given first goes; the rest may still be in this core's cache.
  LCI_COLD void spill(list& mine) noexcept {
    T* last = mine.head;
    for (std::size_t kept = 1; kept < SPILL_AT / 2; ++kept) last = last->pool_next;
    list piece;
    piece.head = last->pool_next;
    piece.length = mine.length - SPILL_AT / 2;
    last->pool_next = nullptr;
    mine.length = SPILL_AT / 2;
    lock_.lock();
    if (pieces_ != piece_list_.size())
      piece_list_[pieces_++] = piece;
    else
      while (piece.head != nullptr) move_one(piece, shared_);
    lock_.unlock();
  }
  LCI_COLD T* get_shared() noexcept {
    list one;
    lock_.lock();
    if (shared_.head != nullptr) move_one(shared_, one);
    lock_.unlock();
    if (one.head == nullptr && !refill(one)) return nullptr;
    T* object = one.head;
    one.head = object->pool_next;
    if (one.head == nullptr) return object;
    lock_.lock();
    while (one.head != nullptr) move_one(one, shared_);
    lock_.unlock();
    return object;
  }
  LCI_COLD void put_shared(T* object) noexcept {
    lock_.lock();
    push(shared_, object);
    lock_.unlock();
  }
  static T* take_first(list& from) noexcept {
    T* const object = from.head;
    from.head = object->pool_next;
    --from.length;
    return object;
  }
  static void push(list& to, T* object) noexcept {
    object->pool_next = to.head;
    to.head = object;
    ++to.length;
  }
  static void move_one(list& from, list& to) noexcept { push(to, take_first(from)); }

  std::array<list, base::MAX_THREADS> lists_{};
  base::spinlock lock_;
  list shared_;                          // under lock_
  std::array<list, PIECES> piece_list_;  // under lock_, the first `pieces_` of them
  std::size_t pieces_ = 0;               // under lock_
  slab* slabs_ = nullptr;                // under lock_
};

}  // namespace lci::data
