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

// What meets its partner in the bucket's slot, or is the first in its bucket. All else is left to
// other functions, so this one calls nothing: docs/decisions/0065-raw-keys-in-their-bucket.md.
void* map_engine::insert_raw(matching_entry_key_t key, void* value, matching_entry_type_t type) {
  // edge map_engine.current, reader: pairs with the store in grow().
  table* const t = current_.load(std::memory_order_acquire);
  bucket& b = t->of(exact_key::raw(key));
  LCI_RACE_POINT("map_engine.insert_raw.before_lock");
  // A constant where it is called: in place of a test of it at every step.
  const auto inside = [&](bool is_alone) {
    if (!t->is_open()) [[unlikely]] {
      leave(b, is_alone);
      return insert_raw_drafted(key, value, type);
    }
    void* partner = nullptr;
    if (b.slot.holds_partner(key, type))
      partner = b.slot.take();
    else if (b.slot.is_empty() && b.queues.is_empty()) [[likely]]
      b.slot.put(key, value, type);
    else
      return insert_raw_inside(b, key, value, type, is_alone);
    leave(b, is_alone);
    return partner;
  };
  if (bias_.enter_brief_at_once()) return inside(true);
  if (bias_.is_over() && b.lock.try_lock()) [[likely]]
    return inside(false);
  return insert_raw_waiting(key, value, type);
}

// In an open table, by its bucket's owner. make() gives an entry, or null if there is none at hand;
// it is called only if one is needed. Nothing is ordered among raw keys, so there are no stamps.
template <class Make>
inline map_engine::raw_outcome map_engine::meet_raw(const table& t, bucket& b, const exact_key& key,
                                                    void* value, matching_entry_type_t type,
                                                    Make&& make) noexcept {
  if (b.slot.holds_partner(key.tag, type)) return {true, b.slot.take()};
  entry** const at = b.queues.find(key);
  if (*at != nullptr && (*at)->type != type) {
    entry* const taken = b.queues.take_head(at);
    return {true, taken->value, taken};
  }
  // Behind a queue of the same key it would overtake.
  if (*at == nullptr && b.slot.is_empty()) {
    b.slot.put(key.tag, value, type);
    return {true};
  }
  entry* const mine = make();
  if (mine == nullptr) [[unlikely]]
    return {};
  fill(*mine, key, value, type, 0);
  mine->stamp = 0;
  b.queues.append(at, mine);
  return {true, nullptr, nullptr, is_crowded(t, b) ? &t : nullptr};
}

inline void* map_engine::settle_raw(const raw_outcome& outcome) noexcept {
  if (outcome.crowded != nullptr) [[unlikely]]
    grow(outcome.crowded);
  if (outcome.taken != nullptr) give_back(pool_, outcome.taken);
  return outcome.value;
}

// Another thread has the bucket, or the bias has to move.
void* map_engine::insert_raw_waiting(matching_entry_key_t key, void* value,
                                     matching_entry_type_t type) {
  table* const t = current_.load(std::memory_order_acquire);  // edge map_engine.current
  bucket& b = t->of(exact_key::raw(key));
  const bool is_alone = bias_.enter_brief();
  if (!is_alone) b.lock.lock();
  if (t->is_open()) [[likely]]
    return insert_raw_inside(b, key, value, type, is_alone);
  leave(b, is_alone);
  return insert_raw_drafted(key, value, type);
}

// In a bucket of the open table, which the caller has entered; leaves it.
void* map_engine::insert_raw_inside(bucket& b, matching_entry_key_t key, void* value,
                                    matching_entry_type_t type, bool is_alone) {
  // Relaxed: no thread replaces a table in one of whose buckets another thread is.
  const table* const t = current_.load(std::memory_order_relaxed);
  // The pool may not allocate here, nor a thread get its number.
  const auto at_hand = [this]() noexcept -> entry* {
    if (!base::has_thread_id() || base::thread_id() == base::OVERFLOW_THREAD) return nullptr;
    return pool_.try_get_at_hand(base::thread_id());
  };
  const raw_outcome outcome = meet_raw(*t, b, exact_key::raw(key), value, type, at_hand);
  leave(b, is_alone);
  if (!outcome.is_over) [[unlikely]]
    return insert_raw_drafted(key, value, type);
  return settle_raw(outcome);
}

// With an entry made before: where none is at hand, and where the table is closed, that is, while
// wildcards are in use or it grows.
void* map_engine::insert_raw_drafted(matching_entry_key_t raw_key, void* value,
                                     matching_entry_type_t type) {
  const exact_key key = exact_key::raw(raw_key);
  entry* const mine = draft(pool_, key, value, type, 0);
  bool is_needed = false;
  raw_outcome outcome;
  entry* partner = nullptr;
  {
    const visit inside(bias_);
    for (;;) {
      table* const t = current_.load(std::memory_order_acquire);  // edge map_engine.current
      if (t->is_open()) {
        bucket& b = t->of(key);
        const std::lock_guard guard(b.lock);
        // Again, now that no thread can close it without waiting for this lock.
        if (!t->is_open()) continue;
        outcome = meet_raw(*t, b, key, value, type, [&]() noexcept {
          is_needed = true;
          return mine;
        });
        break;
      }
      const std::lock_guard guard(lock_);
      // Not ordered any more, or only closed because it grew: try the new table.
      if (!is_ordered_) continue;
      partner = meet_ordered_locked(mine);
      is_needed = true;
      break;
    }
  }
  if (!is_needed) give_back(pool_, mine);
  return outcome.is_over ? settle_raw(outcome) : settle(pool_, mine, partner);
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
