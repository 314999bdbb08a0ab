// Finds places to map at, and keeps the list of views. Called at set-up and at first contact;
// is_view() also by posts from a borrowed packet. Threads: see the header.
#include "lci/mem/window.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace lci::mem {

namespace {

std::uintptr_t number(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

// The system hands out addresses from the top down. Stacks, heaps and libraries that come later
// than the arena use up this much before they reach a window.
constexpr std::uintptr_t DISTANCE = std::uintptr_t{256} << 30;
// Further arenas of the process are placed further down, so that their windows do not overlap.
constexpr std::uintptr_t STEP = 2 * window::ROOM;
constexpr int STEPS = 8;

// The place is a hint: if it is taken, the system chooses another.
void* map_near(std::uintptr_t place, std::size_t size, int fd) noexcept {
  return mmap(reinterpret_cast<void*>(place), size, PROT_READ | PROT_WRITE,
              MAP_SHARED | MAP_NORESERVE, fd, 0);
}

// An address near those that the system would hand out now; 0 if it has none.
std::uintptr_t top_of_free_memory() noexcept {
  constexpr std::size_t LARGE_PAGE = std::size_t{2} << 20;
  void* const top = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (top == MAP_FAILED) return 0;
  munmap(top, 4096);
  return number(top) / LARGE_PAGE * LARGE_PAGE;
}

}  // namespace

void* map_with_room(std::size_t size, int fd) noexcept {
  const std::uintptr_t top = top_of_free_memory();
  for (std::uintptr_t i = 0; i < STEPS; ++i) {
    const std::uintptr_t needed = DISTANCE + i * STEP + size;
    if (top < needed + window::ROOM) break;  // small address spaces
    void* const got = map_near(top - needed, size, fd);
    if (got == MAP_FAILED || number(got) == top - needed) return got;
    munmap(got, size);
  }
  return map_near(0, size, fd);
}

void window::start(const void* own, std::size_t size) noexcept {
  next_ = number(own);
  own_low_ = next_ - std::min(next_, ROOM);
  own_span_ = next_ - own_low_ + size;
  low_.store(own_low_, std::memory_order_relaxed);
  span_.store(own_span_, std::memory_order_relaxed);
}

void window::widen(const void* at, std::size_t size) noexcept {
  const std::lock_guard lock(mutex_);
  const std::uintptr_t low = low_.load(std::memory_order_relaxed);
  const std::uintptr_t high = low + span_.load(std::memory_order_relaxed);
  const std::uintptr_t new_low = std::min(low, number(at));
  const std::uintptr_t new_high = std::max(high, number(at) + size);
  // A thread that looks in between sees the old range and more.
  span_.store(new_high - new_low, std::memory_order_relaxed);
  low_.store(new_low, std::memory_order_release);  // edge window.widen
}

void* window::place_for(std::size_t size) const noexcept {
  const std::lock_guard lock(mutex_);
  return next_ - own_low_ >= size ? reinterpret_cast<void*>(next_ - size) : nullptr;
}

bool window::add(const void* at, std::size_t size) noexcept {
  const std::uintptr_t start = number(at);
  if (start - own_low_ > own_span_ || size > own_span_ - (start - own_low_)) return false;
  const std::lock_guard lock(mutex_);
  try {
    views_.push_back({start, size});
  } catch (const std::bad_alloc&) {
    return false;
  }
  next_ = std::min(next_, start);
  return true;
}

void window::remove(const void* at) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(views_, [at](const view& v) { return v.at == number(at); });
}

bool window::is_view(const void* p) const noexcept {
  const std::lock_guard lock(mutex_);
  return std::any_of(views_.begin(), views_.end(),
                     [p](const view& v) { return number(p) - v.at < v.size; });
}

}  // namespace lci::mem
