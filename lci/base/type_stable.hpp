// Memory for the objects behind public handles that is never given back to the system and never
// holds anything but objects of one type, so that looking at a handle whose object was freed is
// safe and can be answered with a typed error instead of a crash.
//
// A caller may hand a freed handle to every function of the public interface. An impl class derives
// from live_object<itself>, is made by make_live() and ended by free_live(); check_live() then
// costs one compare of the pointer and one load of the object's first line. A dead object reads
// DEAD_BYTE everywhere, or starts with a T::tombstone if T names one, as completion objects do. A
// freed slot is handed out again only after QUARANTINE others of its type were freed, oldest first:
// so a stale handle meets a new object late, not at once. A type whose handles operations keep for
// long defines T::QUARANTINE.
//
// In a process that was forked from one that uses the library, orphan_all() marks all objects: each
// then reads FORKED, or is a T::orphan if T names one, and is refused like a dead one, with a
// message of its own. So the message path never has to check in which process it runs.
//
// Threads: all functions any thread; freeing an object while another thread uses it stays the
// user's error.
//
// Always true: memory of one pool is reused for the same type only; pools live until the process
// ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "lci/base/platform.hpp"
#include "lci/base/spinlock.hpp"

namespace lci::base {

// What the bytes of a freed object read as.
inline constexpr unsigned char DEAD_BYTE = 0xDB;

// The error text for a process that was forked from one that uses the library.
inline constexpr char FORKED_TEXT[] =
    "this process was forked from a rank of the job and is no rank itself; start lci only after "
    "fork(), or in a program of its own";

namespace detail {

// One number per type, the same in every shared object built by one compiler (an address of a
// static would differ between modules).
template <class T>
constexpr std::uint64_t type_number() noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : std::string_view(__PRETTY_FUNCTION__))
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash | 1;  // never zero, which fresh memory reads as
}

// Takes the place of a type's number in a process that was forked.
inline constexpr std::uint64_t FORKED = 0xF0F0F0F0F0F0F0F0u;

[[noreturn]] LCI_COLD void throw_not_live(const void* object, const char* what,
                                          std::uint64_t magic);

}  // namespace detail

// Slots of one size, first in first out. Allocation takes a lock; it belongs to alloc_*() and
// free_*(), not to messages.
class type_stable_pool {
 public:
  // How many freed slots wait before the oldest is used again, if the type does not say.
  static constexpr std::size_t QUARANTINE = 32;

  // Marks the object in a slot, if there is one, as left behind by a fork.
  using marker = void(void* slot) noexcept;

  // The process-wide pool of a type; made at first use.
  static type_stable_pool& of(std::uint64_t type, std::size_t bytes, std::size_t alignment,
                              std::size_t quarantine, marker& mark);
  // Prepares for orphan_all(), which must not be the first call to allocate anything.
  static void expect_fork();
  // Marks all objects. For the child of a fork, whatever threads its parent had.
  static void orphan_all() noexcept;

  void* allocate();
  void release(void* slot) noexcept;

 private:
  type_stable_pool(std::uint64_t type, std::size_t bytes, std::size_t alignment,
                   std::size_t quarantine, marker& mark);
  struct link {
    void* next;
  };
  // The link lies behind the object, so that the dead object keeps its pattern.
  link* link_of(void* slot) const noexcept {
    return reinterpret_cast<link*>(static_cast<char*>(slot) + link_offset_);
  }
  void* carve_locked();
  void orphan() noexcept;

  const std::uint64_t type_;
  const std::size_t alignment_;
  const std::size_t quarantine_;
  const std::size_t link_offset_;
  const std::size_t slot_bytes_;
  const std::size_t chunk_slots_;  // slots of a chunk
  marker& mark_;
  spinlock lock_;                      // guards all below
  void* oldest_ = nullptr;             // head of the free slots
  void* newest_ = nullptr;             // tail
  std::size_t free_count_ = 0;         // slots between the two
  std::atomic<char*> chunk_{nullptr};  // current chunk; a word at its end leads to the one before;
                                       // orphan() reads it without the lock
  std::size_t chunk_used_;             // slots of it that have been handed out at least once
  type_stable_pool* next_ = nullptr;   // registry of all pools, immutable after publication
};

// First base of an impl class T. Holds T's number while the object lives and anything else
// afterwards.
template <class T>
class live_object {
 public:
  live_object(const live_object&) = delete;
  live_object& operator=(const live_object&) = delete;
  // Relaxed: says only "not freed by this thread or one this thread has synchronised with", which
  // is all a correct program can ask.
  bool is_live() const noexcept { return magic_.load(std::memory_order_relaxed) == MAGIC; }

 protected:
  live_object() noexcept : magic_(MAGIC) {}
  ~live_object() = default;

 private:
  template <class U>
  friend void free_live(U* object, const char* what);
  template <class U>
  friend U* check_live(U* object, const char* what);
  template <class U>
  friend void orphan_live(void* slot) noexcept;
  static constexpr std::uint64_t MAGIC = detail::type_number<T>();
  std::atomic<std::uint64_t> magic_;
};

// The marker of a pool of T.
template <class T>
void orphan_live(void* slot) noexcept {
  live_object<T>* const object = static_cast<T*>(slot);  // a dead one is no T
  if (!object->is_live()) return;
  object->magic_.store(detail::FORKED, std::memory_order_relaxed);
  // Not destroyed first: what it held belongs to the parent.
  if constexpr (requires { typename T::orphan; }) ::new (slot) typename T::orphan;
}

namespace detail {

template <class T>
constexpr std::size_t quarantine_of() noexcept {
  if constexpr (requires { T::QUARANTINE; }) return T::QUARANTINE;
  return type_stable_pool::QUARANTINE;
}

template <class T>
type_stable_pool& pool_of() {
  return type_stable_pool::of(type_number<T>(), sizeof(T), alignof(T), quarantine_of<T>(),
                              orphan_live<T>);
}

}  // namespace detail

// A new T. Throws what T's constructor throws, or std::bad_alloc.
template <class T, class... Args>
T* make_live(Args&&... args) {
  type_stable_pool& pool = detail::pool_of<T>();
  void* slot = pool.allocate();
  try {
    return ::new (slot) T(std::forward<Args>(args)...);
  } catch (...) {
    std::memset(slot, DEAD_BYTE, sizeof(T));
    pool.release(slot);
    throw;
  }
}

// Whether a handle has an object that was not freed.
template <class T>
inline bool is_live(const T* object) noexcept {
  // Null and the small numbers that stand for special handles are never objects.
  return reinterpret_cast<std::uintptr_t>(object) >= 4096 && object->is_live();
}

// The object behind a handle, or argument_error if the handle is empty, was freed, or names an
// object of another type. `what` is the argument's name: "device".
template <class T>
inline T* check_live(T* object, const char* what) {
  // Null and the small numbers that stand for special handles are never objects.
  if (reinterpret_cast<std::uintptr_t>(object) < 4096) [[unlikely]]
    detail::throw_not_live(object, what, 0);
  if (!object->is_live()) [[unlikely]]
    detail::throw_not_live(object, what, object->magic_.load(std::memory_order_relaxed));
  return object;
}

// Destroys an object made by make_live() and leaves its memory readable as dead. Throws
// argument_error for one that is dead already.
template <class T>
void free_live(T* object, const char* what) {
  check_live(object, what);
  object->magic_.store(0, std::memory_order_relaxed);
  type_stable_pool& pool = detail::pool_of<T>();
  object->~T();
  std::memset(static_cast<void*>(object), DEAD_BYTE, sizeof(T));
  // A polymorphic type may leave an object behind that is safe to use through a base class.
  if constexpr (requires { typename T::tombstone; })
    ::new (static_cast<void*>(object)) typename T::tombstone;
  pool.release(object);
}

}  // namespace lci::base
