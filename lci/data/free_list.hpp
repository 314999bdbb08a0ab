// Pools of small objects that are used over and over: cut from slabs, linked through a member of
// the object while they are free. Matching nodes come from here.
//
// Threads: slab_pool_st is single, or guarded by a lock that its caller holds; slab_pool is
// shared, behind a spinlock.
//
// Always true: objects are constructed once, when their slab is made, and live until the pool
// dies; get() hands one out as its last user left it, last in first out. No heap once as many
// objects as now have been out before.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "lci/base/platform.hpp"
#include "lci/base/spinlock.hpp"

namespace lci::data {

// NEXT is the member that links free objects; its owner may use it for anything while the object is
// out.
template <class T, T* T::*NEXT>
class free_list_st {
 public:
  // Null when empty.
  T* get() noexcept {
    T* const object = top_;
    if (object != nullptr) top_ = object->*NEXT;
    return object;
  }
  void put(T* object) noexcept {
    object->*NEXT = top_;
    top_ = object;
  }
  bool is_empty() const noexcept { return top_ == nullptr; }

 private:
  T* top_ = nullptr;
};

// The first slab is small, each later one twice as large up to a limit: an idle pool is cheap and a
// busy one rarely allocates.
template <class T, T* T::*NEXT>
class slab_pool_st {
 public:
  static constexpr std::size_t FIRST_SLAB = 16;
  static constexpr std::size_t MAX_SLAB = 1024;

  slab_pool_st() = default;
  slab_pool_st(const slab_pool_st&) = delete;
  slab_pool_st& operator=(const slab_pool_st&) = delete;

  // Throws std::bad_alloc.
  T* get() {
    if (T* const object = free_.get()) [[likely]]
      return object;
    grow();
    return free_.get();
  }
  void put(T* object) noexcept { free_.put(object); }

  // Objects that exist, free or out.
  std::size_t capacity() const noexcept { return capacity_; }

 private:
  LCI_COLD void grow() {
    const std::size_t n = next_slab_;
    slabs_.push_back(std::make_unique<T[]>(n));
    T* const slab = slabs_.back().get();
    // Backwards, so that objects come out in address order.
    for (std::size_t i = n; i-- > 0;) free_.put(&slab[i]);
    capacity_ += n;
    if (next_slab_ < MAX_SLAB) next_slab_ *= 2;
  }

  free_list_st<T, NEXT> free_;
  std::vector<std::unique_ptr<T[]>> slabs_;
  std::size_t next_slab_ = FIRST_SLAB;
  std::size_t capacity_ = 0;
};

template <class T, T* T::*NEXT>
class slab_pool {
 public:
  T* get() {
    const std::lock_guard guard(lock_);
    return pool_.get();
  }
  void put(T* object) noexcept {
    const std::lock_guard guard(lock_);
    pool_.put(object);
  }
  std::size_t capacity() const noexcept {
    const std::lock_guard guard(lock_);
    return pool_.capacity();
  }

 private:
  mutable base::spinlock lock_;
  slab_pool_st<T, NEXT> pool_;
};

}  // namespace lci::data
