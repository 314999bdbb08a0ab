// What a call looks at before it writes anything: whether the endpoint lives, whether the rank is
// one, and where a place is. Callers: the calls of this room. Threads: any.
// Always true: a refusal has changed nothing but reservations of a queue that has ended; sums of
// offset and size do not run over; of a key whose length is not known the owner's table decides,
// when the request is executed.
#pragma once

#include <cstdint>

#include "lci/gpu/record.hpp"

namespace lci::gpu {

// A word that others may write meanwhile. Relaxed: for words after which nothing is read that their
// writer wrote before.
template <class T>
LCI_ANYWHERE T look_at(const T* word) noexcept {
  return wqe::word_at<T>(const_cast<T*>(word)).load(std::memory_order_relaxed);
}

LCI_ANYWHERE inline void* pointer(std::uint64_t mapped) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(mapped));
}

// What the handle says by itself.
LCI_ANYWHERE inline status check_handle(const endpoint_t& ep) noexcept {
  if (ep.record == nullptr) return status::bad_endpoint;
  return ((ep.generation & OF_GPU) != 0) == wqe::runs_on_gpu() ? status::ok : status::wrong_gpu;
}

LCI_ANYWHERE inline status check_endpoint(const endpoint_t& ep) noexcept {
  if (const status s = check_handle(ep); s != status::ok) return s;
  return look_at(&ep.record->generation) == ep.generation ? status::ok : status::bad_endpoint;
}

LCI_ANYWHERE inline status check_rank(const endpoint_t& ep, int rank) noexcept {
  if (const status s = check_handle(ep); s != status::ok) return s;
  // Both on their way at once: a GPU waits once.
  const std::uint64_t generation = look_at(&ep.record->generation);
  const std::uint32_t ranks = look_at(&ep.record->ranks);
  if (generation != ep.generation) return status::bad_endpoint;
  return static_cast<std::uint32_t>(rank) < ranks ? status::ok : status::bad_rank;
}

// What short calls need of the record.
struct record_words {
  std::uint64_t generation = 0;
  std::uint32_t ranks = 0, me = 0, max_inline = 0, over_card = 0;
  const peer_record* peers = nullptr;
};
// All of it under way at once. The handle has been checked.
LCI_ANYWHERE inline record_words words_of(const endpoint_t& ep) noexcept {
  const endpoint_record& r = *ep.record;
  record_words out;
  out.generation = look_at(&r.generation);
  out.ranks = look_at(&r.ranks);
  out.me = look_at(&r.me);
  out.max_inline = look_at(&r.max_inline);
  out.over_card = look_at(&r.over_card);
#ifdef __CUDA_ARCH__
  out.peers = static_cast<const peer_record*>(
      pointer(look_at(reinterpret_cast<const std::uint64_t*>(&r.peers))));
#else
  out.peers = r.peers;
#endif
  return out;
}
LCI_ANYWHERE inline status check_rank(const endpoint_t& ep, const record_words& record,
                                      int rank) noexcept {
  if (record.generation != ep.generation) return status::bad_endpoint;
  return static_cast<std::uint32_t>(rank) < record.ranks ? status::ok : status::bad_rank;
}

// A place of `size` bytes.
struct found_place {
  std::uint64_t address = 0;  // in work requests
  std::uint64_t mapped = 0;   // for loads and stores of this thread; 0: it takes a request
  std::uint32_t key = 0;
  std::uint32_t message_key = 0;  // in messages and atomic operations
  bool is_near = false;           // see key_t
  // Of `mapped`, for atomic operations: 0 where the way to the memory has none.
  std::uint64_t mapped_for_atomics = 0;
};

// In memory that `owner` registered. Record: endpoint_record or record_words.
template <class Record>
LCI_ANYWHERE status find(const Record& record, const place_t& at, std::uint64_t size,
                         std::uint32_t owner, found_place* out) noexcept {
  const key_t& k = at.key;
  if (k.key == 0 && k.mapped == 0) return status::bad_key;
  // A number of the other kind would name other memory.
  if ((k.of_card != 0) != (record.over_card != 0)) return status::bad_key;
  if (k.rank != ANY_RANK && static_cast<std::uint32_t>(k.rank) != owner) return status::bad_rank;
  if (k.length != UNKNOWN_LENGTH && (at.offset > k.length || size > k.length - at.offset))
    return status::out_of_range;
  out->address = k.base + at.offset;
  out->mapped = k.mapped == 0 ? 0 : k.mapped + at.offset;
  out->mapped_for_atomics = k.no_atomics == 0 ? out->mapped : 0;
  out->key = k.key;
  out->message_key = record.over_card != 0 ? k.message_key : k.key;
  out->is_near = k.is_near != 0;
  return status::ok;
}

// Whether an atomic operation may go by request. A card's queue does not take it: memory is not
// registered for that.
LCI_ANYWHERE inline bool takes_atomics(const endpoint_record& record) noexcept {
  return record.over_card == 0 || record.message_peers != nullptr;
}

// What ended a queue, for a thread that waits for it. With the peer's death its requests fail, and
// an abort flushes them: a wait may find that before it looks at the abort flag.
LCI_ANYWHERE inline status reason_of(const peer_record& peer) noexcept {
  const status s = wqe::ended_by(peer.queue);
  if (s != status::failed) return s;
  switch (peer.queue.state->error.error) {
    case wqe::syndrome::retry_exceeded:
      return status::peer_lost;
    case wqe::syndrome::flushed:
      return status::aborted;
    default:
      return status::failed;
  }
}
// And for a thread that posts to it: nothing was posted.
LCI_ANYWHERE inline status refusal_of(const peer_record& peer, status s) noexcept {
  if (s == status::dead && reason_of(peer) == status::peer_lost) return status::peer_lost;
  return s == status::failed ? reason_of(peer) : s;
}

}  // namespace lci::gpu
