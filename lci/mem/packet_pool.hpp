// Owns the packets of one size. Devices, the bcopy protocol and users (get_upacket) take them; the
// final owner returns one with release_packet(), even if it was borrowed from a peer. Threads:
// shared. get() and put() of a thread with a stocked cache are plain loads and stores (base/owned);
// growing, refilling and stealing take a lock. The destructor expects no thread to be inside and
// every packet to be home or abandoned. Always true: at most `limit` packets exist; at most half of
// them are lent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lci/base/platform.hpp"
#include "lci/mem/arena.hpp"
#include "lci/mem/packet.hpp"
#include "lci/mem/packet_cache.hpp"

namespace lci::mem {

class packet_pool : public packet_home {
 public:
  // packet_size: bytes of one packet with its header line, rounded up to whole cache lines. limit:
  // ceiling on the number of packets, may be 0; the pool starts empty and grows by chunks.
  // Throws argument_error.
  packet_pool(arena& arena, std::size_t packet_size, std::size_t limit);
  ~packet_pool();
  packet_pool(const packet_pool&) = delete;
  packet_pool& operator=(const packet_pool&) = delete;

  // A packet in state `out`, or null when all `limit` packets are in use or memory ran out. May
  // also be null while other threads are busy inside caches that hold packets; call again.
  packet* get() noexcept {
    packet* const p = get_at_hand();
    return p != nullptr ? p : get_cold();
  }
  // The same from the calling thread's cache alone, without a call. Null: get() may find one.
  packet* get_at_hand() noexcept {
    base::detail::thread_record* const me = base::detail::thread_record_tls;
    thread_cache* const mine = cache_of(me);
    if (mine == nullptr || !mine->guard.enter_brief_as_owner(me)) [[unlikely]]
      return nullptr;
    packet* const p = mine->loaded.pop();
    base::owned::leave_brief(me);
    if (p != nullptr) [[likely]]
      p->state.store(packet_state::out, std::memory_order_relaxed);
    return p;
  }
  // Takes back a packet of this pool that is `out` or `posted`; one that is `apart` goes on to its
  // payload_pool. Any other packet (put twice, still lent) is left alone and counted; debug builds
  // abort.
  void put(packet* p) noexcept {
    if (p->state.load(std::memory_order_relaxed) != packet_state::out) [[unlikely]]
      return put_other(*p);
    p->state.store(packet_state::pooled, std::memory_order_relaxed);
    restock(p);
  }
  // The same for a packet that is `pooled` already: one that a packet_hand noted as returned. All
  // that needs a call is a tail call, so that nothing is kept across it.
  void restock(packet* p) noexcept {
    base::detail::thread_record* const me = base::detail::thread_record_tls;
    thread_cache* const mine = cache_of(me);
    if (mine == nullptr || !mine->guard.enter_brief_as_owner(me)) [[unlikely]]
      return restock_cold(p);
    const bool has_room = !mine->loaded.is_full();
    if (has_room) [[likely]]
      mine->loaded.push(p);
    base::owned::leave_brief(me);
    if (!has_room) [[unlikely]]
      return restock_cold(p);
  }

  // Whether it is one of this pool, to which its header may not point any more.
  bool owns(const packet* p) const noexcept;

  // Lends the packet if another one may be lent: marks it `lent` and remembers it; get() and
  // reclaim() find it again once it is returned. False: over the cap, or the thread has no cache at
  // the moment; the packet stays `out` and with the caller.
  bool lend(packet* p) noexcept;
  // Takes back returned packets of the calling thread's cache; returns how many. get() calls this
  // when it runs short.
  std::size_t reclaim() noexcept;
  // Takes back every lent packet of all threads that has this `note` (set by the lender before
  // lend()), returned or not: for borrowers that have left or failed, so that the note is of no use
  // any more. Returns how many. Those of a thread that is inside its cache follow when a thread
  // runs short.
  std::size_t recall(std::uint64_t note) noexcept;

  // The packet whose payload starts at `payload`, if that is a packet of a pool in `own` and is
  // `out`; else null. Safe for any address.
  static packet* checked(const arena& own, void* payload) noexcept;
  // The same for any packet that a program may hold, including one that a peer has lent to us and
  // one whose payload is apart. Null at the cost of one comparison where no packet is near.
  static packet* held(const arena& own, void* payload) noexcept {
    return own.packet_window().covers(payload) ? held_near(own, payload) : nullptr;
  }

  // True if the address is near packets and is the start of the payload of one that the program no
  // longer has: posted, put back, or returned to the peer that lent it.
  LCI_COLD static bool is_given_away(const arena& own, void* payload) noexcept;

  std::size_t payload_size() const noexcept { return packet_size_ - sizeof(packet); }
  std::size_t limit() const noexcept { return limit_; }
  std::size_t allocated() const noexcept;    // packets that exist
  std::size_t outstanding() const noexcept;  // out or lent (exact only while no thread is inside)
  std::size_t lent() const noexcept;         // including returned ones not yet found (likewise)
  std::size_t misuses() const noexcept;      // put() of packets that were not `out`

 private:
  using thread_cache = thread_cache_state;
  static packet* held_near(const arena& own, void* payload) noexcept;
  struct shared;

  // By thread number; the last row is that of threads beyond MAX_THREADS and stays null: they use
  // the store directly.
  typedef std::atomic<thread_cache*> cache_table[base::MAX_THREADS + 1];

  // The cache of a thread, null if it has none (yet).
  thread_cache* cache_of(const base::detail::thread_record* me) const noexcept {
    // edge pool.cache: partner is make_cache(), for the number's next holder and for thieves.
    return me != nullptr ? (*caches_)[me->id].load(std::memory_order_acquire) : nullptr;
  }
  thread_cache* my_cache() noexcept;
  thread_cache* make_cache() noexcept;
  packet* get_cold() noexcept;
  packet* search(thread_cache* mine) noexcept;
  packet* steal(thread_cache* mine) noexcept;
  void restock_cold(packet* p) noexcept;
  LCI_COLD void put_other(packet& p) noexcept;
  LCI_COLD void refuse(const packet& p) noexcept;

  std::size_t packet_size_;
  std::size_t limit_;
  std::unique_ptr<shared> shared_;
  cache_table* caches_;  // in shared_
};

// The pool to which a packet of this process belongs. If its payload lies apart, this is also the
// pool from which it was requested.
inline packet_pool& pool_of(const packet& p) noexcept { return static_cast<packet_pool&>(*p.pool); }

// Gives a packet back to its owner. `own` is this process's arena: a packet inside it goes to its
// pool; any other was borrowed and is marked returned.
inline void release_packet(const arena& own, packet* p) noexcept {
  if (own.contains(p)) {
    pool_of(*p).put(p);
  } else {
    return_borrowed(*p);
  }
}
// The same for one that was to be home already, so that its pool may have ended: then no pool gets
// it.
LCI_COLD void release_late(arena& own, packet* p) noexcept;

}  // namespace lci::mem
