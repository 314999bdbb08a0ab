// Packets whose payloads lie in memory of the user's choice, usually GPU memory: the packet itself
// is in the arena like any other, its payload in a slab from an allocator. Nothing here touches a
// payload. Users (get_upacket) and arrivals take packets; the final owner gives one back with
// release_packet(). Owned by the runtime's packet pool, which the packets name as their pool
// (packet::pool).
// Threads: shared; a spinlock around a few instructions, a mutex while the allocator runs.
// Always true: at most `limit` packets exist, and each is in the free list or `apart`. The
// destructor expects every packet to be home; slabs with one that is not stay allocated.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "lci/base/spinlock.hpp"
#include "lci/mem/arena.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/mem/packet.hpp"
#include "lci/memory.hpp"

namespace lci::mem {

struct far_packet : packet {
  packet_home* home = nullptr;          // its payload_pool
  std::byte* data = nullptr;            // the payload
  const memory_place* place = nullptr;  // of the payload; lives as long as the pool
  bool is_in_operation = false;         // belongs to the pool
};

class payload_pool : public packet_home {
 public:
  // Payloads start at multiples of this, which suits kernels.
  static constexpr std::size_t ALIGNMENT = 256;
  // How much is requested from the allocator at a time, unless a packet is larger.
  static constexpr std::size_t SLAB_BYTES = std::size_t{2} << 20;
  using place_finder = memory_place (*)(const void*) noexcept;

  // `name`: the pool that the packets give as theirs. payload_size: bytes, not 0. limit: ceiling on
  // the number of packets. `from` is not owned. Allocates nothing yet.
  payload_pool(arena& headers, packet_home& name, allocator_base_t& from, std::size_t payload_size,
               std::size_t limit, place_finder find);
  ~payload_pool();
  payload_pool(const payload_pool&) = delete;
  payload_pool& operator=(const payload_pool&) = delete;

  // A packet in state `apart`, or null when all `limit` are in use. Throws what the allocator
  // throws, std::bad_alloc when it returns nothing, argument_error for memory that lci does not
  // handle; the pool is then as before.
  far_packet* get();
  // Takes back a packet of this pool. False: it is home already (it was given back twice).
  bool put(far_packet& p) noexcept;
  // enter_operation(): an operation that may need messages to complete has the packet now; the
  // packet may return to the user if the operation is refused. put() and leave_operation() end this
  // state.
  void enter_operation(far_packet& p) noexcept;
  void leave_operation(far_packet& p) noexcept;
  // The number of packets in that state.
  std::size_t in_operations() const noexcept;

  std::size_t payload_size() const noexcept { return payload_size_; }
  std::size_t limit() const noexcept { return limit_; }
  // Packets that exist, and those that are in use.
  std::size_t allocated() const noexcept { return made_.load(std::memory_order_relaxed); }
  std::size_t outstanding() const noexcept;
  allocator_base_t& allocator() const noexcept { return from_; }

 private:
  struct slab {
    void* memory = nullptr;  // as the allocator gave it
    far_packet* packets = nullptr;
    std::size_t count = 0;
    memory_place place;
    std::byte* start = nullptr;  // of the first payload
  };
  far_packet* take() noexcept;
  void grow();
  void settle(slab& s);
  void release(slab& s) noexcept;

  arena& arena_;
  packet_home& name_;
  allocator_base_t& from_;
  const std::size_t payload_size_;
  const std::size_t stride_;
  const std::size_t limit_;
  const place_finder find_;

  mutable base::spinlock lock_;  // guards the next three and the packets' own words
  packet* free_ = nullptr;       // by packet::next
  std::size_t free_count_ = 0;
  std::size_t in_operations_ = 0;
  std::mutex growing_;
  std::vector<slab*> slabs_;  // under growing_
  std::atomic<std::size_t> made_{0};
};

// The packet whose payload starts at that address, or one of those that were allocated together
// with it; or null. See payload_index.
inline far_packet* find_far(const payload_index& in, const void* payload) noexcept {
  return static_cast<far_packet*>(in.find(payload));
}
inline const far_packet* find_near(const payload_index& in, const void* address) noexcept {
  return static_cast<const far_packet*>(in.near(address));
}

// The pool to which such a packet belongs.
inline payload_pool& home_of(const far_packet& p) noexcept {
  return static_cast<payload_pool&>(*p.home);
}

}  // namespace lci::mem
