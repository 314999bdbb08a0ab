// How entries of the registration cache end: unmapped, replaced or evicted; at once, or with their
// last user.
#include <sched.h>

#include "lci/base/race_point.hpp"
#include "lci/mem/region_cache.hpp"

namespace lci::mem {

// Returns the epoch with which anything found now may be remembered.
std::uint64_t region_cache::apply_unmaps_locked() noexcept {
  return log_.drain(
      [this](std::uintptr_t begin, std::uintptr_t end) {
        kill_overlapping_locked(begin, end);
        if (begin < making_now_.end && making_now_.begin < end) was_unmapped_meanwhile_ = true;
      },
      [this] {
        kill_overlapping_locked(0, ~std::uintptr_t{0});
        was_unmapped_meanwhile_ = true;
      });
}

void region_cache::kill_overlapping_locked(std::uintptr_t begin, std::uintptr_t end) noexcept {
  auto next = by_address_.upper_bound(begin);
  if (next != by_address_.begin()) --next;
  while (next != by_address_.end() && next->range.begin < end) {
    cache_entry& e = *next++;
    if (e.range.end > begin) kill_locked(e);
  }
}

// settle_locked() must follow before mutex_ is released: until its fence, a thread may be counting
// a use of the entry in a count that cannot be seen yet.
void region_cache::kill_locked(cache_entry& e) noexcept {
  by_address_.erase(by_address_.iterator_to(e));
  ages_.erase(ages_.iterator_to(e));
  bytes_ -= e.range.size();
  log_.unwatch(e.range.begin, e.range.size());
  e.where = cache_entry::place::dead;
  dying_.push_back(e);
  // edge cache.kill: partners are try_hit() and is_dead().
  e.generation.store(e.generation.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
}

// Entries without a user go to `trash`; the others end with their last user.
void region_cache::settle_locked(entry_list& trash) noexcept {
  if (dying_.empty()) return;
  LCI_RACE_POINT("region_cache.settle.before_fence");
  while (!base::heavy_fence()) sched_yield();  // no memory for the call, which passes
  while (!dying_.empty()) {
    cache_entry& e = dying_.front();
    dying_.pop_front();
    if (holds_.sum(e) != 0) {
      dead_.push_back(e);
      continue;
    }
    e.where = cache_entry::place::free;
    trash.push_back(e);
  }
}

// The last user of a dead entry comes here, and sometimes others that counted late.
LCI_COLD void region_cache::reap(cache_entry& e) noexcept {
  entry_list trash;
  {
    const std::lock_guard lock(mutex_);
    if (e.where != cache_entry::place::dead || holds_.sum(e) != 0) return;
    dead_.erase(dead_.iterator_to(e));
    e.where = cache_entry::place::free;
    trash.push_back(e);
  }
  bury(trash);
}

// Without a lock: deregistering is slow.
void region_cache::bury(entry_list& trash) noexcept {
  if (trash.empty()) return;
  for (cache_entry& e : trash) network_.deregister_range(e.handle);
  const std::lock_guard lock(mutex_);
  free_.splice(free_.begin(), trash);
}

// Evicts until no more than these limits are kept. An entry that was hit since the last round gets
// a second chance, one in use stays; no more than `looks` of the latter are looked at.
void region_cache::evict_locked(std::size_t bytes, std::size_t count, std::size_t looks) noexcept {
  // Two rounds are enough, if no thread hits meanwhile.
  std::size_t turns = 2 * by_address_.size();
  while ((bytes_ > bytes || by_address_.size() > count) && looks > 0 && turns-- > 0) {
    cache_entry& oldest = ages_.back();
    const bool was_hit = oldest.was_hit.exchange(false, std::memory_order_relaxed);
    if (!was_hit && holds_.sum(oldest) == 0) {
      kill_locked(oldest);
      ++evicted_;
      continue;
    }
    if (!was_hit) --looks;
    ages_.splice(ages_.begin(), ages_, ages_.iterator_to(oldest));
  }
}

// Deregisters about that many unused entries, if there are any; returns how many.
std::size_t region_cache::evict_some(std::size_t wanted) noexcept {
  entry_list trash;
  {
    const std::lock_guard lock(mutex_);
    apply_unmaps_locked();
    const std::size_t now = by_address_.size();
    evict_locked(~std::size_t{0}, now - std::min(now, wanted), now);
    settle_locked(trash);
  }
  const std::size_t out = trash.size();
  bury(trash);
  return out;
}

}  // namespace lci::mem
