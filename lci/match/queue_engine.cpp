// Matching by walking the lists.
#include "lci/match/queue_engine.hpp"

#include <mutex>

#include "lci/match/look.hpp"

namespace lci::match {

template <class Predicate>
void* queue_engine::meet_or_file(entry* mine, Predicate&& is_partner) {
  const bool is_send = mine->type == matching_entry_type_t::send;
  arrival_list& partners = is_send ? recvs_ : sends_;
  entry* partner;
  {
    const std::lock_guard guard(lock_);
    partner = partners.find(is_partner);
    if (partner == nullptr)
      (is_send ? sends_ : recvs_).append(mine);
    else if (has_no_room(*mine, *partner))
      partner = refuse(mine, *partner);
    else
      partners.remove(partner);
  }
  return settle(pool_, mine, partner);
}

void* queue_engine::insert_send(const match_key& key, void* value) {
  const exact_key exact = exact_key::of(key);
  entry* const mine = draft(pool_, exact, value, matching_entry_type_t::send, key.size);
  mine->tag = key.tag;
  mine->rank = key.rank;
  return meet_or_file(mine, [&](const entry& recv) {
    if (recv.key.space == WILDCARD)
      return recv_pattern{recv.rank, recv.tag, {}}.covers(key.rank, key.tag);
    return recv.key == exact;
  });
}

exact_key queue_engine::key_of(const recv_pattern& pattern) noexcept {
  return pattern.is_wildcard() ? exact_key{0, 0, WILDCARD} : exact_key::of(pattern);
}

void* queue_engine::insert_recv(const recv_pattern& pattern, void* value) {
  return insert_recv(pattern, *draft(pool_, {}, value, matching_entry_type_t::recv, pattern.room));
}

void* queue_engine::insert_recv(const recv_pattern& pattern, entry& mine) {
  const exact_key exact = key_of(pattern);
  mine.key = exact;
  mine.type = matching_entry_type_t::recv;
  mine.size = pattern.room;
  mine.tag = pattern.tag;
  mine.rank = pattern.rank;
  return meet_or_file(&mine, [&](const entry& send) {
    if (exact.space != WILDCARD) return send.key == exact;
    return send.key.space != exact_key::RAW && pattern.covers(send.rank, send.tag);
  });
}

void* queue_engine::insert_raw(matching_entry_key_t key, void* value, matching_entry_type_t type) {
  const exact_key exact = exact_key::raw(key);
  return meet_or_file(draft(pool_, exact, value, type, 0),
                      [&](const entry& other) { return other.key == exact; });
}

bool queue_engine::remove_recv(const recv_pattern& pattern, const void* value) {
  const exact_key exact = key_of(pattern);
  entry* found;
  {
    const std::lock_guard guard(lock_);
    found = recvs_.find([&](const entry& recv) {
      return recv.value == value && recv.key == exact && recv.key.space != exact_key::RAW;
    });
    if (found != nullptr) recvs_.remove(found);
  }
  if (found != nullptr) give_back(pool_, found);
  return found != nullptr;
}

void queue_engine::remove_recvs(const recv_test& takes) {
  const std::lock_guard guard(lock_);
  const auto is_taken = [&](const entry& e) {
    if (e.key.space == exact_key::RAW) return false;
    return takes(e.key.space == WILDCARD ? e.rank : e.key.source(), e.value);
  };
  recvs_.remove_if(is_taken, [&](entry* e) { give_back(pool_, e); });
}

void queue_engine::remove_sends(const send_test& takes) {
  const std::lock_guard guard(lock_);
  sends_.remove_if([&](const entry& e) { return e.key.space != exact_key::RAW && takes(e.value); },
                   [&](entry* e) { pool_.put(e); });
}

bool queue_engine::all_older(const recv_pattern& pattern, const void* value,
                             const value_test& is_it) {
  const exact_key exact = key_of(pattern);
  const std::lock_guard guard(lock_);
  // The first entry that is the one asked for, or that comes before it and must not.
  const entry* const first = recvs_.find([&](const entry& recv) {
    return recv.value == value || recv.key.space == WILDCARD ||
           (recv.key == exact && !is_it(recv.value));
  });
  return first != nullptr && first->value == value;
}

void queue_engine::drain_st(const leave_fn& leave) {
  for (arrival_list* list : {&sends_, &recvs_}) {
    while (entry* const e = list->find([](const entry&) { return true; })) {
      list->remove(e);
      const bool is_pooled = !e->is_lent;  // leave() may end what it lies in
      leave(e->value, e->type, e->key.space == exact_key::RAW);
      if (is_pooled) pool_.put(e);
    }
  }
}

std::size_t queue_engine::size() {
  const std::lock_guard guard(lock_);
  std::size_t n = 0;
  for (arrival_list* list : {&sends_, &recvs_})
    list->find([&](const entry&) {
      ++n;
      return false;
    });
  return n;
}

std::size_t queue_engine::look_at(look_fn see, void* with) noexcept {
  if (!try_for_a_while(lock_)) return 1;
  const std::lock_guard guard(lock_, std::adopt_lock);
  for (const arrival_list* list : {&recvs_, &sends_}) {
    list->look([&](const entry& e) {
      if (e.key.space == exact_key::RAW) return;
      see(with, e.key.space == WILDCARD ? wildcard_of(e) : exact_of(e));
    });
  }
  return 0;
}

}  // namespace lci::match
