// Matching by walking a list.
#include "lci/match/queue_engine.hpp"

#include <mutex>

namespace lci::match {

template <class Predicate>
void* queue_engine::meet_or_file(arrival_list& partners, arrival_list& own, const entry& filed,
                                 Predicate&& is_partner) {
  const std::lock_guard guard(lock_);
  if (entry* const partner = partners.find(is_partner); partner != nullptr) {
    partners.remove(partner);
    void* const value = partner->value;
    pool_.put(partner);
    return value;
  }
  entry* const e = pool_.get();
  *e = filed;
  own.append(e);
  return nullptr;
}

void* queue_engine::insert_send(const match_key& key, void* value) {
  entry e;
  e.key = exact_key::of(key);
  e.value = value;
  e.tag = key.tag;
  e.rank = key.rank;
  return meet_or_file(recvs_, sends_, e, [&](const entry& recv) {
    if (recv.key.space == WILDCARD)
      return recv_pattern{recv.rank, recv.tag, {}}.covers(key.rank, key.tag);
    return recv.key == e.key;
  });
}

entry queue_engine::entry_of(const recv_pattern& pattern, void* value) noexcept {
  entry e;
  e.key = pattern.is_wildcard() ? exact_key{0, 0, WILDCARD} : exact_key::of(pattern);
  e.value = value;
  e.tag = pattern.tag;
  e.rank = pattern.rank;
  e.type = matching_entry_type_t::recv;
  return e;
}

void* queue_engine::insert_recv(const recv_pattern& pattern, void* value) {
  const entry e = entry_of(pattern, value);
  return meet_or_file(sends_, recvs_, e, [&](const entry& send) {
    if (e.key.space != WILDCARD) return send.key == e.key;
    return send.key.space != exact_key::RAW && pattern.covers(send.rank, send.tag);
  });
}

void* queue_engine::insert_raw(matching_entry_key_t key, void* value, matching_entry_type_t type) {
  entry e;
  e.key = exact_key::raw(key);
  e.value = value;
  e.type = type;
  const bool is_send = type == matching_entry_type_t::send;
  return meet_or_file(is_send ? recvs_ : sends_, is_send ? sends_ : recvs_, e,
                      [&](const entry& other) { return other.key == e.key; });
}

bool queue_engine::remove_recv(const recv_pattern& pattern, const void* value) {
  const entry e = entry_of(pattern, nullptr);
  const std::lock_guard guard(lock_);
  entry* const found = recvs_.find([&](const entry& recv) {
    return recv.value == value && recv.key == e.key && recv.key.space != exact_key::RAW;
  });
  if (found == nullptr) return false;
  recvs_.remove(found);
  pool_.put(found);
  return true;
}

void queue_engine::drain_st(const leave_fn& leave) {
  for (arrival_list* list : {&sends_, &recvs_}) {
    while (entry* const e = list->find([](const entry&) { return true; })) {
      list->remove(e);
      leave(e->value, e->type, e->key.space == exact_key::RAW);
      pool_.put(e);
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

}  // namespace lci::match
