// A matching engine: where a message that finds no receive waits for one, and the other way round.
//
// The protocols file messages as they arrive and receives as they are posted; the caller that
// completes a pair gets the value of the other half and goes on with both. Values are opaque
// pointers that belong to the caller; null is not a value. A receive that is posted takes a message
// only if it has room for it; otherwise the message stays where it is.
//
// Threads: shared, all functions at any time, except drain_st(). Nothing here blocks beyond a
// short spinlock or calls out.
//
// Always true: a value that was filed comes back exactly once, from an insert of its partner, from
// remove_recv(), remove_recvs(), remove_sends() or drain_st(). Order: per key first in, first out.
// A receive with a wildcard takes the oldest message that it covers; a message that both an exact
// and a wildcard receive cover goes to the one that was posted first (see key.hpp for what covers
// means).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "lci/match/key.hpp"

namespace lci::match {

struct entry;

class engine {
 public:
  virtual ~engine() = default;

  // A message arrived: returns the value of the receive that takes it, or null, in which case the
  // message is filed. Throws std::bad_alloc when there is no memory to file it; nothing is changed
  // then. The same holds for the next two.
  virtual void* insert_send(const match_key& key, void* value) = 0;
  // A message arrived, and nothing is to be filed: returns the value of the receive that
  // insert_send() would return, or null when there is none or the engine cannot tell cheaply.
  // Expected messages thus need no record of their own.
  virtual void* take_recv(const match_key& /*key*/) noexcept { return nullptr; }
  // A receive was posted: returns the value of the message that it takes, or null, in which case
  // the receive is filed. Throws truncation_error, with nothing changed, when that message is
  // larger than its room.
  virtual void* insert_recv(const recv_pattern& pattern, void* value) = 0;
  // The same with an entry of the caller's, whose value and is_lent are set. It is the engine's
  // until the value comes back, or this call returns a message's or throws.
  virtual void* insert_recv(const recv_pattern& pattern, entry& mine) = 0;
  // For the keys of matching_engine_insert(), a space of their own: returns the value of the oldest
  // opposite entry with that key, or null, in which case this one is filed.
  virtual void* insert_raw(matching_entry_key_t key, void* value, matching_entry_type_t type) = 0;

  // Takes back a posted receive; false: it is not here (any more), and its message was or will be
  // delivered. The cost grows with the number of receives of the same key.
  virtual bool remove_recv(const recv_pattern& pattern, const void* value) = 0;

  // Takes back all receives for which takes() returns true. `source` is the only rank whose
  // messages the receive takes, or ANY_SOURCE, also if its policy leaves the rank out. takes() runs
  // under a lock, once for each filed receive. Walks everything.
  using recv_test = std::function<bool(int source, void* value)>;
  virtual void remove_recvs(const recv_test& takes) = 0;

  // The same for messages.
  using send_test = std::function<bool(void* value)>;
  virtual void remove_sends(const send_test& takes) = 0;

  // True if a receive that is filed without a wildcard comes after none with a wildcard, and
  // `is_it` holds for the values of all receives of its key that were filed before it. Also false
  // if the receive is not here any more, or the engine cannot tell. is_it runs under a lock.
  using value_test = std::function<bool(const void* value)>;
  virtual bool all_older(const recv_pattern& pattern, const void* value,
                         const value_test& is_it) = 0;

  // Empties the engine, calling leave(value, type, is_raw) for everything in it. No other thread
  // may use it meanwhile.
  using leave_fn = std::function<void(void* value, matching_entry_type_t type, bool is_raw)>;
  virtual void drain_st(const leave_fn& leave) = 0;

  // The number of filed entries, raw ones included. A snapshot; walks everything.
  virtual std::size_t size() = 0;

  // Shows what is filed, except under raw keys, for people to read: calls see(with, one) for each
  // entry, under a lock. Never waits and allocates nothing, since a signal handler may have
  // interrupted a thread that holds a lock: returns how many parts were left out for that reason.
  struct filed_entry {
    matching_entry_type_t type;
    int rank;   // of a message: its sender; of a receive: the sender it takes from, or ANY_SOURCE
    tag_t tag;  // likewise, or ANY_TAG
    matching_policy_t policy;
    std::size_t size;
    std::uint64_t stamp;  // when it was filed, in cpu_ticks() or base::rough_clock; 0: not known
    const void* value;
  };
  using look_fn = void (*)(void* with, const filed_entry& one);
  virtual std::size_t look_at(look_fn see, void* with) noexcept = 0;
};

}  // namespace lci::match
