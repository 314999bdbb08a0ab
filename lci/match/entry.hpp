// One unmatched message or receive inside an engine, and the queue in which those with equal keys
// wait. Owned by the engine that files it, or part of the caller's record and lent while it is
// filed; guarded by the lock under which the engine keeps it.
#pragma once

#include <algorithm>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>

#include "lci/base/platform.hpp"
#include "lci/data/object_pool.hpp"
#include "lci/match/key.hpp"

namespace lci::match {

// Entries with equal keys form a queue: its head is the oldest, is linked in the bucket's list and
// points to the youngest. All entries of a queue have one type, because an entry that meets the
// opposite type is matched instead of filed.
struct entry {
  exact_key key{};
  void* value = nullptr;        // belongs to the caller; never null while filed
  entry* pool_next = nullptr;   // belongs to the pool, while the entry is free
  entry* next_queue = nullptr;  // head only: the next queue of the bucket
  entry* next_same = nullptr;   // the next younger entry of this queue
  entry* last_same = nullptr;   // head only: the youngest of this queue, itself if alone
  std::size_t size = 0;         // bytes: of a message, or the room of a receive
  // When it was filed: orders receives with wildcards, and messages of different buckets. That of a
  // receive without a wildcard is rough (base/rough_clock), but below those of later wildcards.
  std::uint64_t stamp = 0;
  tag_t tag = 0;  // actual tag of a message, for wildcards
  int rank = 0;   // actual rank of a message
  matching_entry_type_t type = matching_entry_type_t::send;
  bool is_lent = false;  // by the caller, in whose record it lies; else it is the pool's
  // In the list of all messages by arrival, which is kept only while wildcards are in use.
  boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>
      by_arrival;
  std::size_t refused = 0;  // set by refuse(): bytes of the message that did not fit
};
static_assert(sizeof(entry) <= 2 * base::CACHE_LINE);

using entry_pool = data::object_pool<entry>;

// What every entry has before it is filed.
inline void fill(entry& e, const exact_key& key, void* value, matching_entry_type_t type,
                 std::size_t size) noexcept {
  e.key = key;
  e.value = value;
  e.type = type;
  e.size = size;
}

// Prepares an entry before it is known whether it has to be filed. Not under a bucket's lock, since
// the pool may have to allocate.
inline entry* draft(entry_pool& pool, const exact_key& key, void* value, matching_entry_type_t type,
                    std::size_t size) {
  entry* const e = pool.get();
  fill(*e, key, value, type, size);
  return e;
}

// An entry is not filed any more, and no thread looks at it.
inline void give_back(entry_pool& pool, entry* e) noexcept {
  if (!e->is_lent) pool.put(e);
}

// A receive that is being posted does not take a message that is larger than its room; a message
// that arrives takes a receive whatever its room, because that receive is used up by the error.
inline bool has_no_room(const entry& mine, const entry& filed) noexcept {
  return mine.type == matching_entry_type_t::recv && filed.size > mine.size;
}

// What is returned in place of a partner if has_no_room(): the receive's own entry, with a copy of
// what the error reports, because the message may no longer exist once the lock is released.
LCI_COLD inline entry* refuse(entry* mine, const entry& filed) noexcept {
  mine->rank = filed.rank;
  mine->tag = filed.tag;
  mine->refused = filed.size;
  return mine;
}

// Gives back a refused receive's entry and throws truncation_error.
[[noreturn]] LCI_COLD void throw_refused(entry_pool& pool, entry* mine);

// Ends a meeting, outside all locks: returns the partner's value and gives back both entries; null
// if there is no partner and `mine` was filed.
inline void* settle(entry_pool& pool, entry* mine, entry* partner) {
  if (partner == nullptr) return nullptr;
  if (partner == mine) [[unlikely]]
    throw_refused(pool, mine);
  void* const value = partner->value;
  give_back(pool, partner);
  give_back(pool, mine);
  return value;
}

// All entries of a bucket, as queues. Single: guarded by the bucket's owner.
class entry_queues {
 public:
  // The link that leads to the head of the queue with that key, or to the null at the list's end.
  entry** find(const exact_key& key) noexcept {
    entry** at = &first_;
    while (*at != nullptr && !((*at)->key == key)) at = &(*at)->next_queue;
    return at;
  }
  // Appends to the queue that find(e->key) led to.
  void append(entry** at, entry* e) noexcept {
    e->next_same = nullptr;
    if (*at == nullptr) {
      ++count_;
      e->next_queue = nullptr;
      e->last_same = e;
      *at = e;
    } else {
      (*at)->last_same->next_same = e;
      (*at)->last_same = e;
    }
  }
  // Puts it before all others of that queue.
  void prepend(entry** at, entry* e) noexcept {
    entry* const head = *at;
    if (head == nullptr) return append(at, e);
    e->next_same = head;
    e->last_same = head->last_same;
    e->next_queue = head->next_queue;
    *at = e;
  }
  // Takes out the oldest entry of the queue that find() led to.
  entry* take_head(entry** at) noexcept {
    entry* const head = *at;
    if (entry* const second = head->next_same; second != nullptr) {
      second->next_queue = head->next_queue;
      second->last_same = head->last_same;
      *at = second;
    } else {
      *at = head->next_queue;
      --count_;
    }
    return head;
  }
  // Takes out an entry that is filed here. Walks its queue.
  void remove(entry* e) noexcept {
    entry** const at = find(e->key);
    entry* const head = *at;
    if (head == e) {
      take_head(at);
      return;
    }
    entry* before = head;
    while (before->next_same != e) before = before->next_same;
    before->next_same = e->next_same;
    if (head->last_same == e) head->last_same = before;
  }
  // The entry with that key and value, or null.
  entry* find_value(const exact_key& key, const void* value) noexcept {
    for (entry* e = *find(key); e != nullptr; e = e->next_same)
      if (e->value == value) return e;
    return nullptr;
  }
  // Takes out all entries for which is_it(entry&) holds and hands them to leave(entry*), which may
  // free them.
  template <class Predicate, class Leave>
  void remove_if(Predicate&& is_it, Leave&& leave) {
    for (entry** at = &first_; *at != nullptr;) {
      entry* const next_queue = (*at)->next_queue;
      entry* kept = nullptr;
      entry* last = nullptr;
      for (entry *e = *at, *next; e != nullptr; e = next) {
        next = e->next_same;
        if (is_it(*e)) {
          leave(e);
          continue;
        }
        (last != nullptr ? last->next_same : kept) = e;
        last = e;
      }
      if (kept == nullptr) {
        *at = next_queue;
        --count_;
        continue;
      }
      last->next_same = nullptr;
      kept->last_same = last;
      kept->next_queue = next_queue;
      *at = kept;
      at = &kept->next_queue;
    }
  }
  // Calls fn(entry*) for each; fn may free its entry, but not file or remove others.
  template <class Fn>
  void for_each(Fn&& fn) {
    for (entry *head = first_, *next_head; head != nullptr; head = next_head) {
      next_head = head->next_queue;
      for (entry *e = head, *next; e != nullptr; e = next) {
        next = e->next_same;
        fn(e);
      }
    }
  }
  // The same without changes: fn(const entry&).
  template <class Fn>
  void look(Fn&& fn) const {
    for (const entry* head = first_; head != nullptr; head = head->next_queue)
      for (const entry* e = head; e != nullptr; e = e->next_same) fn(*e);
  }
  // Moves each whole queue to the front of the list that target(head) returns; leaves nothing here.
  template <class Target>
  void move_queues(Target&& target) noexcept {
    while (first_ != nullptr) {
      entry* const head = first_;
      first_ = head->next_queue;
      entry_queues& to = target(head);
      head->next_queue = to.first_;
      to.first_ = head;
      ++to.count_;
    }
    count_ = 0;
  }
  void clear() noexcept {
    first_ = nullptr;
    count_ = 0;
  }
  bool is_empty() const noexcept { return first_ == nullptr; }
  // The number of queues, that is, of different keys.
  std::size_t count() const noexcept { return count_; }

 private:
  entry* first_ = nullptr;
  std::size_t count_ = 0;
};

// Entries in order of arrival. Single.
class arrival_list {
 public:
  void append(entry* e) noexcept { entries_.push_back(*e); }
  void remove(entry* e) noexcept { entries_.erase(entries_.iterator_to(*e)); }
  // The oldest entry that satisfies the predicate, or null. The list owns the links alone.
  template <class Predicate>
  entry* find(Predicate&& is_it) const {
    const auto at = std::find_if(entries_.begin(), entries_.end(), is_it);
    return at != entries_.end() ? const_cast<entry*>(&*at) : nullptr;
  }
  // As entry_queues::remove_if().
  template <class Predicate, class Leave>
  void remove_if(Predicate&& is_it, Leave&& leave) {
    entries_.remove_and_dispose_if(is_it, leave);
  }
  template <class Fn>
  void look(Fn&& fn) const {
    for (const entry& e : entries_) fn(e);
  }
  bool is_empty() const noexcept { return entries_.empty(); }
  void clear() noexcept { entries_.clear(); }

 private:
  boost::intrusive::list<
      entry, boost::intrusive::member_hook<entry, decltype(entry::by_arrival), &entry::by_arrival>,
      boost::intrusive::constant_time_size<false>>
      entries_;
};

}  // namespace lci::match
