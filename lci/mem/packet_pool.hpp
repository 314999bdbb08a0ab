// Owns the packets of one size. Devices, the bcopy protocol and users (get_upacket) take them; whoever ends up owning one
// returns it with release_packet(), also when it was borrowed from a peer.
// Threads: shared. get() and put() of a thread with a stocked cache are plain loads and stores (base/owned); growing, refilling and
// stealing take a lock. The destructor wants nobody inside and every packet home or abandoned.
// Always true: at most `limit` packets exist; at most half of them are lent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lci/mem/arena.hpp"
#include "lci/mem/packet.hpp"

namespace lci::mem {

class packet_pool {
 public:
  // packet_size: bytes of one packet with its header line. limit: ceiling on the number of packets; the pool starts with a few and grows.
  packet_pool(arena& arena, std::size_t packet_size, std::size_t limit);
  ~packet_pool();
  packet_pool(const packet_pool&) = delete;
  packet_pool& operator=(const packet_pool&) = delete;

  // A packet in state `out`, or null when all `limit` packets are in use.
  packet* get() noexcept;
  // Takes back a packet of this pool that is `out`.
  void put(packet* p) noexcept;

  // May another packet be lent? If so marks it `lent` and remembers it; get() and reclaim() find it again once it is returned.
  // False: over the cap, the packet stays `out` with the caller.
  bool lend(packet* p) noexcept;
  // Takes back returned packets of the calling thread's cache; answers how many. get() calls this when it runs short.
  std::size_t reclaim() noexcept;

  std::size_t payload_size() const noexcept { return packet_size_ - sizeof(packet); }
  std::size_t limit() const noexcept { return limit_; }
  std::size_t allocated() const noexcept;  // packets that exist
  std::size_t outstanding() const noexcept;  // not pooled: out or lent (exact only when nobody is inside)

 private:
  struct shared;
  struct thread_cache;
  std::size_t packet_size_;
  std::size_t limit_;
  std::unique_ptr<shared> shared_;
};

// Gives a packet back to whoever it belongs to. `own` is this process's arena: a packet inside it goes to its pool, any other one was
// borrowed and is marked returned.
inline void release_packet(const arena& own, packet* p) noexcept {
  if (own.contains(p)) {
    p->pool->put(p);
  } else {
    // edge packet.return: what the borrower read is read before the lender may overwrite it; partner is the acquire load in reclaim().
    p->state.store(packet_state::returned, std::memory_order_release);
  }
}

}  // namespace lci::mem
