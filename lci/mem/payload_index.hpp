// Where payloads lie that are apart from their packets (payload_pool): from an address to the
// packet. Owned by the arena that holds the packets. Threads: shared; find() takes a lock shared,
// slabs come and go with it held alone. Always true: the ranges are sorted and do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <shared_mutex>
#include <vector>

namespace lci::mem {

struct packet;

class payload_index {
 public:
  // Payloads that were allocated together, one every `stride` bytes.
  struct slab {
    std::uintptr_t at = 0;
    std::size_t stride = 0;
    std::size_t count = 0;
    packet* first = nullptr;      // of an array of `count`
    std::size_t packet_size = 0;  // bytes from one to the next there
  };
  void add(const slab& what);  // throws std::bad_alloc
  void remove(std::uintptr_t at) noexcept;
  // The packet whose payload starts there, in whatever state, or null.
  packet* find(const void* payload) const noexcept;
  // A packet of the slab that the address lies in, or null.
  const packet* near(const void* address) const noexcept;

 private:
  const slab* slab_of(std::uintptr_t address) const noexcept;

  mutable std::shared_mutex mutex_;
  std::vector<slab> slabs_;  // by address, under mutex_
};

}  // namespace lci::mem
