// Finds packets by the addresses of payloads that lie apart from them (payload_pool). Owned by the
// arena that holds the packets. Threads: shared; find() holds a lock shared, adding and removing
// slabs holds it exclusively. Always true: the ranges are sorted and do not overlap.
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
    std::size_t packet_size = 0;  // distance of its elements in bytes
  };
  void add(const slab& what);  // throws std::bad_alloc
  void remove(std::uintptr_t at) noexcept;
  // The packet whose payload starts at that address, in whatever state, or null.
  packet* find(const void* payload) const noexcept;
  // Some packet of the slab in which the address lies, or null.
  const packet* near(const void* address) const noexcept;

 private:
  const slab* slab_of(std::uintptr_t address) const noexcept;

  mutable std::shared_mutex mutex_;
  std::vector<slab> slabs_;  // by address, under mutex_
};

}  // namespace lci::mem
