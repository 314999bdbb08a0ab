// The map engine while wildcards are in use, and what concerns the table as a whole: growing and
// emptying.
#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "lci/match/map_engine.hpp"

namespace lci::match {
namespace {

bool is_raw(const entry& e) { return e.key.space == exact_key::RAW; }

// Only messages are in the list of arrivals.
bool is_message(const entry& e) { return e.type == matching_entry_type_t::send && !is_raw(e); }

recv_pattern pattern_of(const entry& wildcard) { return {wildcard.rank, wildcard.tag, {}}; }

}  // namespace

// After this, no thread works in the table without the engine's lock.
void map_engine::table::close() noexcept {
  // Relaxed: a thread that takes a bucket's lock after us sees this store through that lock; one
  // that held it before us has left when we get it.
  is_open_.store(false, std::memory_order_relaxed);
  for (std::size_t i = 0; i <= mask; ++i) {
    buckets_[i].lock.lock();
    buckets_[i].lock.unlock();
  }
}

template <class Fn>
void map_engine::table::for_each(Fn&& fn) {
  for (std::size_t i = 0; i <= mask; ++i) buckets_[i].queues.for_each(fn);
}

// What lies in the slots goes before the queues of its keys; of a table that is closed.
void map_engine::empty_slots_locked() {
  for (std::size_t i = 0; i <= tables_->mask; ++i) {
    bucket& b = tables_->at(i);
    if (b.slot.is_empty()) continue;
    entry* const e = draft(pool_, exact_key::raw(b.slot.key()), nullptr, b.slot.type(), 0);
    e->value = b.slot.take();
    e->stamp = 0;
    b.queues.prepend(b.queues.find(e->key), e);
  }
}

// Throws std::bad_alloc, in which case the engine stays as it was. The one place that allocates
// under the engine's lock: only there is nothing filed meanwhile.
void map_engine::become_ordered_locked() {
  table& t = *tables_;
  t.close();
  std::uint64_t newest = base::cpu_ticks();
  try {
    empty_slots_locked();
    std::vector<entry*> filed;
    const entry* before = nullptr;
    t.for_each([&](entry* e) {
      newest = std::max(newest, e->stamp);  // another core's clock may be ahead of this one
      if (!is_message(*e)) return;
      // Or behind it: what stands behind another of its key came later, whatever the clocks say.
      if (before != nullptr && before->key == e->key) e->stamp = std::max(e->stamp, before->stamp);
      before = e;
      filed.push_back(e);
    });
    // Stable: entries of one queue that have the same stamp stay in their order.
    std::stable_sort(filed.begin(), filed.end(),
                     [](const entry* a, const entry* b) { return a->stamp < b->stamp; });
    for (entry* e : filed) messages_.append(e);
  } catch (...) {
    t.open();
    throw;
  }
  next_stamp_ = newest + 1;
  quiet_ = 0;
  is_ordered_ = true;
}

void map_engine::count_quiet_locked() noexcept {
  if (!wildcards_.is_empty()) {
    quiet_ = 0;
    return;
  }
  if (++quiet_ < QUIET_OPERATIONS) return;
  is_ordered_ = false;
  messages_.clear();
  tables_->open();
}

// The oldest waiting wildcard that covers the message, if it was posted before the exact receive
// (which may be null).
entry* map_engine::older_wildcard_locked(const entry& message, const entry* exact) const {
  if (is_raw(message)) return nullptr;
  entry* const wildcard = wildcards_.find(
      [&](const entry& w) { return pattern_of(w).covers(message.rank, message.tag); });
  if (wildcard != nullptr && exact != nullptr && exact->stamp < wildcard->stamp) return nullptr;
  return wildcard;
}

void map_engine::file_ordered_locked(bucket& b, entry** at, entry* mine) {
  mine->stamp = next_stamp_++;
  b.queues.append(at, mine);
  if (is_message(*mine)) messages_.append(mine);
}

// Matches or files a message, or a receive without a wildcard.
entry* map_engine::meet_ordered_locked(entry* mine) {
  bucket& b = tables_->of(mine->key);
  entry** const at = b.queues.find(mine->key);
  entry* partner = *at != nullptr && (*at)->type != mine->type ? *at : nullptr;
  entry* const wildcard =
      mine->type == matching_entry_type_t::send ? older_wildcard_locked(*mine, partner) : nullptr;
  if (wildcard != nullptr) {
    wildcards_.remove(wildcard);
    partner = wildcard;
  } else if (partner != nullptr && has_no_room(*mine, *partner)) {
    partner = refuse(mine, *partner);
  } else if (partner != nullptr) {
    b.queues.take_head(at);
    if (is_message(*partner)) messages_.remove(partner);
  } else {
    file_ordered_locked(b, at, mine);
  }
  count_quiet_locked();
  return partner;
}

// Matches or files a receive with a wildcard.
entry* map_engine::meet_wildcard_locked(entry* mine) {
  quiet_ = 0;
  entry* const message =
      messages_.find([&](const entry& m) { return pattern_of(*mine).covers(m.rank, m.tag); });
  if (message != nullptr && has_no_room(*mine, *message)) return refuse(mine, *message);
  if (message != nullptr) {
    messages_.remove(message);
    tables_->of(message->key).queues.remove(message);
  } else {
    mine->stamp = next_stamp_++;
    wildcards_.append(mine);
  }
  return message;
}

bool map_engine::remove_recv(const recv_pattern& pattern, const void* value) {
  const visit inside(bias_);
  const std::lock_guard guard(lock_);
  entry* found = nullptr;
  if (pattern.is_wildcard()) {
    found = wildcards_.find([&](const entry& w) {
      return w.value == value && w.rank == pattern.rank && w.tag == pattern.tag;
    });
    if (found != nullptr) wildcards_.remove(found);
  } else {
    const exact_key key = exact_key::of(pattern);
    // The engine's lock keeps the table in place; the bucket's lock is needed while the table is
    // open and harmless while it is not.
    bucket& b = tables_->of(key);
    const std::lock_guard bucket_guard(b.lock);
    found = b.queues.find_value(key, value);
    if (found != nullptr && found->type != matching_entry_type_t::recv) found = nullptr;
    if (found != nullptr) b.queues.remove(found);
  }
  if (found != nullptr) match::give_back(pool_, found);
  return found != nullptr;
}

// Takes entries out of all buckets, as entry_queues::remove_if().
template <class Predicate, class Leave>
void map_engine::remove_locked(Predicate&& is_it, Leave&& leave) {
  for (std::size_t i = 0; i <= tables_->mask; ++i) {
    bucket& b = tables_->at(i);
    const std::lock_guard bucket_guard(b.lock);
    b.queues.remove_if(is_it, leave);
  }
}

void map_engine::remove_recvs(const recv_test& takes) {
  const visit inside(bias_);
  const std::lock_guard guard(lock_);
  const auto give_back = [&](entry* e) { match::give_back(pool_, e); };
  remove_locked(
      [&](const entry& e) {
        return e.type == matching_entry_type_t::recv && !is_raw(e) &&
               takes(e.key.source(), e.value);
      },
      give_back);
  wildcards_.remove_if([&](const entry& w) { return takes(w.rank, w.value); }, give_back);
}

void map_engine::remove_sends(const send_test& takes) {
  const visit inside(bias_);
  const std::lock_guard guard(lock_);
  remove_locked([&](const entry& e) { return is_message(e) && takes(e.value); },
                [&](entry* e) {
                  if (is_ordered_) messages_.remove(e);
                  pool_.put(e);
                });
}

bool map_engine::all_older(const recv_pattern& pattern, const void* value,
                           const value_test& is_it) {
  const visit inside(bias_);
  const exact_key key = exact_key::of(pattern);
  table* const t = current_.load(std::memory_order_acquire);  // edge map_engine.current
  bucket& b = t->of(key);
  const std::lock_guard guard(b.lock);
  if (!t->is_open()) return false;
  for (const entry* e = *b.queues.find(key); e != nullptr; e = e->next_same) {
    if (e->value == value) return true;
    if (e->type != matching_entry_type_t::recv || !is_it(e->value)) return false;
  }
  return false;
}

// Replaces the table that was seen to be crowded by a larger one.
void map_engine::grow(const table* seen) noexcept {
  std::unique_ptr<table> larger;
  try {
    larger = std::make_unique<table>((seen->mask + 1) * 4);
  } catch (const std::bad_alloc&) {
    return;  // crowded buckets are slow, not wrong
  }
  const visit inside(bias_);
  const std::lock_guard guard(lock_);
  if (tables_.get() != seen || is_ordered_) return;
  tables_->close();
  // Heads are moved with all that is linked to them, so every queue keeps its order. A new bucket
  // has its entries from one of the old ones, so its slot is empty.
  for (std::size_t i = 0; i <= seen->mask; ++i) {
    bucket& b = tables_->at(i);
    b.queues.move_queues(
        [&](entry* head) -> entry_queues& { return larger->of(head->key).queues; });
    if (!b.slot.is_empty()) larger->of(exact_key::raw(b.slot.key())).slot = b.slot;
  }
  larger->previous = std::move(tables_);
  tables_ = std::move(larger);
  // edge map_engine.current, writer.
  current_.store(tables_.get(), std::memory_order_release);
}

void map_engine::drain_st(const leave_fn& leave) {
  const auto give_back = [&](entry* e) {
    const bool is_pooled = !e->is_lent;  // leave() may end what it lies in
    leave(e->value, e->type, is_raw(*e));
    if (is_pooled) pool_.put(e);
  };
  for (std::size_t i = 0; i <= tables_->mask; ++i) {
    bucket& b = tables_->at(i);
    const matching_entry_type_t type = b.slot.type();
    if (void* const value = b.slot.take(); value != nullptr) leave(value, type, true);
    b.queues.for_each(give_back);
    b.queues.clear();
  }
  messages_.clear();
  while (entry* const w = wildcards_.find([](const entry&) { return true; })) {
    wildcards_.remove(w);
    give_back(w);
  }
}

std::size_t map_engine::size() {
  const visit inside(bias_);
  const std::lock_guard guard(lock_);
  std::size_t n = 0;
  for (std::size_t i = 0; i <= tables_->mask; ++i) {
    bucket& b = tables_->at(i);
    const std::lock_guard bucket_guard(b.lock);
    b.queues.for_each([&](entry*) { ++n; });
    if (!b.slot.is_empty()) ++n;
  }
  wildcards_.find([&](const entry&) {
    ++n;
    return false;
  });
  return n;
}

}  // namespace lci::match
