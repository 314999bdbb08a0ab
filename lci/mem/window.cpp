// The range grows, and places to map at. Called at set-up and at first contact, is_view() also by
// posts from a borrowed packet. Threads: see the header.
#include "lci/mem/window.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace lci::mem {

namespace {

std::uintptr_t number(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

// The system hands out addresses from the top down. Stacks, heaps and libraries that come later
// than the arena fill this much before they get among the views.
constexpr std::uintptr_t DISTANCE = std::uintptr_t{256} << 30;

}  // namespace

void* window::place_for_arena(std::size_t size) noexcept {
  constexpr std::size_t PAGE = 4096;
  void* const top = mmap(nullptr, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (top == MAP_FAILED) return nullptr;
  munmap(top, PAGE);
  if (number(top) / 2 < DISTANCE + size) return nullptr;  // not much room: small address spaces
  constexpr std::uintptr_t LARGE_PAGE = std::uintptr_t{2} << 20;
  return reinterpret_cast<void*>((number(top) - DISTANCE - size) / LARGE_PAGE * LARGE_PAGE);
}

void window::start(const void* own, std::size_t size) noexcept {
  span_.store(size, std::memory_order_relaxed);
  low_.store(number(own), std::memory_order_relaxed);
}

void* window::place_for(std::size_t size) const noexcept {
  const std::uintptr_t low = low_.load(std::memory_order_relaxed);
  return low > size ? reinterpret_cast<void*>(low - size) : nullptr;
}

void window::add(const void* at, std::size_t size) {
  const std::lock_guard lock(mutex_);
  views_.push_back({number(at), size});
  const std::uintptr_t low = low_.load(std::memory_order_relaxed);
  const std::uintptr_t high = low + span_.load(std::memory_order_relaxed);
  const std::uintptr_t new_low = std::min(low, number(at));
  // First the span, then the low end: who still sees the old low end sees too large a range.
  span_.store(std::max(high, number(at) + size) - new_low, std::memory_order_relaxed);
  // edge window.range: partner is covers().
  low_.store(new_low, std::memory_order_release);
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
