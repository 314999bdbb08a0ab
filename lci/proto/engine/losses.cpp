#include "lci/proto/engine/losses.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

namespace lci::proto {

bool losses::entry::is_told_to(std::uint64_t thread) const noexcept {
  return std::find(told.begin(), told.end(), thread) != told.end();
}

// Threads may come and go for ever. One that is forgotten, or for which there is no memory, is told
// of it once more.
void losses::entry::tell(std::uint64_t thread) noexcept {
  if (is_told_to(thread)) return;
  if (told.size() == MOST_TOLD) told.erase(told.begin());
  try {
    told.push_back(thread);
  } catch (const std::bad_alloc&) {
  }
}

bool losses::add(int rank, bool is_due) noexcept {
  const std::lock_guard lock(lock_);
  try {
    entries_.push_back({rank, is_due, false, {}});
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (is_due) {
    silent_for_.store(NOBODY, std::memory_order_relaxed);
    waiting_.fetch_add(1, std::memory_order_relaxed);
  }
  // edge losses.count, writer.
  count_.fetch_add(1, std::memory_order_release);
  return true;
}

void losses::call_for(int rank) noexcept {
  const std::lock_guard lock(lock_);
  for (entry& e : entries_) {
    if (e.rank != rank || e.is_due) continue;
    e.is_due = true;
    silent_for_.store(NOBODY, std::memory_order_relaxed);
    waiting_.fetch_add(1, std::memory_order_relaxed);
  }
}

std::uint32_t losses::first_owed() noexcept {
  const std::uint64_t me = base::thread_serial();
  const std::lock_guard lock(lock_);
  const auto end = static_cast<std::uint32_t>(entries_.size());
  std::uint32_t next = std::min(std::exchange(owed_to_any_, NO_DEBT), end);
  for (std::size_t i = 0; i < debts_.size(); ++i) {
    if (debts_[i].thread != me) continue;
    next = std::min(next, debts_[i].next);
    debts_.erase(debts_.begin() + static_cast<std::ptrdiff_t>(i));
    break;
  }
  while (next < end && entries_[next].is_told_to(me)) ++next;
  return next;
}

void losses::put_back(std::uint32_t number) noexcept {
  const std::uint64_t me = base::thread_serial();
  const std::lock_guard lock(lock_);
  while (number < entries_.size() && entries_[number].is_told_to(me)) ++number;
  if (number >= entries_.size()) return;
  try {
    debts_.push_back({me, number});
  } catch (const std::bad_alloc&) {
    owed_to_any_ = std::min(owed_to_any_, number);
  }
}

int losses::tell(std::uint32_t number) noexcept {
  const std::lock_guard lock(lock_);
  entries_[number].tell(base::thread_serial());
  return entries_[number].rank;
}

void losses::heard(int rank) noexcept {
  const std::uint64_t me = base::thread_serial();
  const std::lock_guard lock(lock_);
  for (entry& e : entries_)
    if (e.rank == rank) e.tell(me);
}

int losses::take(bool has_failed) noexcept {
  const std::uint64_t me = base::thread_serial();
  const std::lock_guard lock(lock_);
  bool is_silent = true;
  for (entry& e : entries_) {
    if (!e.is_due || e.is_taken || e.is_told_to(me)) continue;
    if (peers_.has_failed(e.rank) == has_failed) {
      e.is_taken = true;
      e.tell(me);
      waiting_.fetch_sub(1, std::memory_order_relaxed);
      return e.rank;
    }
    is_silent = false;
  }
  if (is_silent) silent_for_.store(me, std::memory_order_relaxed);
  return NONE;
}

}  // namespace lci::proto
