// The message path: one bucket, one lock. What wildcards need is in map_engine_ordered.cpp.
#include "lci/match/map_engine.hpp"

#include <mutex>

#include "lci/base/race_point.hpp"
#include "lci/match/look.hpp"

namespace lci::match {

map_engine::map_engine() : tables_(std::make_unique<table>(FIRST_BUCKETS)) {
  current_.store(tables_.get(), std::memory_order_relaxed);
}

// Matches or files the entry in an open table; false, and nothing done, if the table is closed.
bool map_engine::meet_open(entry* mine, entry** partner) {
  // edge map_engine.current, reader: pairs with the store in grow().
  table* const t = current_.load(std::memory_order_acquire);
  if (!t->is_open()) return false;
  bucket& b = t->of(mine->key);
  LCI_RACE_POINT("map_engine.meet_open.before_lock");
  bool grows;
  {
    const std::lock_guard guard(b.lock);
    // Again, now that no thread can close it without waiting for this lock.
    if (!t->is_open()) return false;
    entry** const at = b.queues.find(mine->key);
    if (*at != nullptr && (*at)->type != mine->type) {
      *partner = has_no_room(*mine, **at) ? refuse(mine, **at) : b.queues.take_head(at);
      return true;
    }
    mine->stamp = base::cpu_ticks();
    b.queues.append(at, mine);
    grows = is_crowded(*t, b);
  }
  if (grows) [[unlikely]]
    grow(t);
  return true;
}

void* map_engine::meet(entry* mine) {
  const visit inside(bias_);
  entry* partner = nullptr;
  while (!meet_open(mine, &partner)) {
    const std::lock_guard guard(lock_);
    // Not ordered any more, or only closed because it grew: try the new table.
    if (!is_ordered_) continue;
    partner = meet_ordered_locked(mine);
    break;
  }
  return settle(pool_, mine, partner);
}

void* map_engine::insert_send(const match_key& key, void* value) {
  entry* const mine =
      draft(pool_, exact_key::of(key), value, matching_entry_type_t::send, key.size);
  mine->tag = key.tag;
  mine->rank = key.rank;
  return meet(mine);
}

void* map_engine::insert_recv(const recv_pattern& pattern, void* value) {
  return insert_recv(pattern, *draft(pool_, {}, value, matching_entry_type_t::recv, pattern.room));
}

void* map_engine::insert_recv(const recv_pattern& pattern, entry& mine) {
  mine.type = matching_entry_type_t::recv;
  mine.size = pattern.room;
  if (!pattern.is_wildcard()) [[likely]] {
    mine.key = exact_key::of(pattern);
    return meet(&mine);
  }
  mine.key = {};
  mine.tag = pattern.tag;
  mine.rank = pattern.rank;
  entry* partner;
  try {
    const visit inside(bias_);
    const std::lock_guard guard(lock_);
    if (!is_ordered_) become_ordered_locked();
    partner = meet_wildcard_locked(&mine);
  } catch (...) {
    give_back(pool_, &mine);
    throw;
  }
  return settle(pool_, &mine, partner);
}

// Nothing is ordered among raw keys: they need no stamp, and an entry only if there is no partner.
inline map_engine::raw_outcome map_engine::meet_raw(const exact_key& key, void* value,
                                                    matching_entry_type_t type) noexcept {
  // edge map_engine.current, reader: pairs with the store in grow().
  table* const t = current_.load(std::memory_order_acquire);
  bucket& b = t->of(key);
  const std::uint32_t id = base::thread_id();
  LCI_RACE_POINT("map_engine.insert_raw.before_lock");
  raw_outcome outcome{false, nullptr, nullptr};
  {
    const alone_or_locked inside(bias_, b);
    if (!t->is_open()) [[unlikely]]
      return outcome;
    entry** const at = b.queues.find(key);
    if (*at != nullptr && (*at)->type != type) {
      outcome.partner = b.queues.take_head(at);
    } else {
      // The pool may not allocate under this lock.
      entry* const mine = id == base::OVERFLOW_THREAD ? nullptr : pool_.try_get_at_hand(id);
      if (mine == nullptr) [[unlikely]]
        return outcome;
      fill(*mine, key, value, type, 0);
      mine->stamp = 0;
      b.queues.append(at, mine);
      if (is_crowded(*t, b)) [[unlikely]]
        outcome.crowded = t;
    }
  }
  outcome.is_over = true;
  return outcome;
}

void* map_engine::insert_raw(matching_entry_key_t key, void* value, matching_entry_type_t type) {
  const exact_key wanted = exact_key::raw(key);
  const raw_outcome outcome = meet_raw(wanted, value, type);
  if (!outcome.is_over) [[unlikely]]
    return meet(draft(pool_, wanted, value, type, 0));
  if (outcome.crowded != nullptr) [[unlikely]]
    grow(outcome.crowded);
  if (outcome.partner == nullptr) return nullptr;
  void* const other = outcome.partner->value;
  give_back(pool_, outcome.partner);
  return other;
}

std::size_t map_engine::look_at(look_fn see, void* with) noexcept {
  const base::lock_bias::look alone(bias_);
  if (!alone) return 1;
  if (!try_for_a_while(lock_)) return 1;
  const std::lock_guard guard(lock_, std::adopt_lock);
  std::size_t left_out = 0;
  for (std::size_t i = 0; i <= tables_->mask; ++i) {
    bucket& b = tables_->at(i);
    if (!try_for_a_while(b.lock)) {
      ++left_out;
      continue;
    }
    const std::lock_guard bucket_guard(b.lock, std::adopt_lock);
    b.queues.look([&](const entry& e) {
      if (e.key.space != exact_key::RAW) see(with, exact_of(e));
    });
  }
  wildcards_.look([&](const entry& e) { see(with, wildcard_of(e)); });
  return left_out;
}

}  // namespace lci::match
