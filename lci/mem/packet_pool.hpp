// Owns the packets of one size. Devices, the bcopy protocol and users (get_upacket) take them;
// whoever ends up owning one returns it with release_packet(), also when it was borrowed from a
// peer. Threads: shared. get() and put() of a thread with a stocked cache are plain loads and
// stores (base/owned); growing, refilling and stealing take a lock. The destructor wants nobody
// inside and every packet home or abandoned. Always true: at most `limit` packets exist; at most
// half of them are lent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lci/mem/arena.hpp"
#include "lci/mem/packet.hpp"

namespace lci::mem {

class packet_pool {
 public:
  // packet_size: bytes of one packet with its header line, rounded up to whole cache lines. limit:
  // ceiling on the number of packets, may be 0; the pool starts empty and grows by chunks. Throws
  // argument_error.
  packet_pool(arena& arena, std::size_t packet_size, std::size_t limit);
  ~packet_pool();
  packet_pool(const packet_pool&) = delete;
  packet_pool& operator=(const packet_pool&) = delete;

  // A packet in state `out`, or null when all `limit` packets are in use or memory ran out. May
  // also be null while other threads' caches hold packets that they are busy with; call again.
  packet* get() noexcept;
  // Takes back a packet of this pool that is `out`. Any other packet (put twice, still lent) is
  // left alone and counted; debug builds abort.
  void put(packet* p) noexcept;

  // May another packet be lent? If so marks it `lent` and remembers it; get() and reclaim() find it
  // again once it is returned. False: over the cap, or the thread has no cache at the moment; the
  // packet stays `out` with the caller.
  bool lend(packet* p) noexcept;
  // Takes back returned packets of the calling thread's cache; answers how many. get() calls this
  // when it runs short.
  std::size_t reclaim() noexcept;
  // Takes back every lent packet of all threads whose `note` (set by the lender before lend()) is
  // this one, returned or not: for borrowers that are gone. Answers how many.
  std::size_t recall(std::uint64_t note) noexcept;

  // The packet whose payload starts at `payload`, if that is a packet of a pool in `own` and is
  // `out`; else null. Safe for any address.
  static packet* checked(const arena& own, void* payload) noexcept;

  std::size_t payload_size() const noexcept { return packet_size_ - sizeof(packet); }
  std::size_t limit() const noexcept { return limit_; }
  std::size_t allocated() const noexcept;    // packets that exist
  std::size_t outstanding() const noexcept;  // out or lent (exact only when nobody is inside)
  std::size_t lent() const noexcept;     // lent, returned ones not yet found included (likewise)
  std::size_t misuses() const noexcept;  // put() of packets that were not `out`

 private:
  struct shared;
  struct thread_cache;

  thread_cache* my_cache() noexcept;
  thread_cache* make_cache() noexcept;
  packet* get_cold(thread_cache* mine) noexcept;
  packet* steal(thread_cache* mine) noexcept;
  void refuse(const packet& p) noexcept;

  std::size_t packet_size_;
  std::size_t limit_;
  std::unique_ptr<shared> shared_;
};

// Gives a packet back to whoever it belongs to. `own` is this process's arena: a packet inside it
// goes to its pool, any other one was borrowed and is marked returned.
inline void release_packet(const arena& own, packet* p) noexcept {
  if (own.contains(p)) {
    p->pool->put(p);
  } else {
    // edge packet.return: what the borrower read is read before the lender may overwrite it;
    // partner is the acquire load in reclaim().
    p->state.store(packet_state::returned, std::memory_order_release);
  }
}

}  // namespace lci::mem
