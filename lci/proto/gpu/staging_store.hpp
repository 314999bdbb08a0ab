// Host memory that GPU data passes through: sets of slots in the arena, where local peers can reach
// them, pinned where the driver allows. Kept once made, because pinning costs more than copying.
// Owned by gpu::common; called by the staged protocol and by arrivals for GPU memory. Threads:
// shared. Always true: a set has one owner at a time; what exists is bounded by the classes below.
// Receivers that lend sets to peers never get the last ones: a receiver that waits for a peer must
// not keep from its work what the peer waits for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "lci/mem/region_table.hpp"
#include "lci/proto/engine/wire.hpp"
#include "lci/proto/gpu/devices.hpp"

namespace lci::proto::gpu {

struct slot_set {
  std::byte* at = nullptr;
  std::size_t bytes = 0;    // of the whole set
  mem::region_name region;  // under which networks write into it
  std::uint64_t place = 0;  // in the arena
  std::uint8_t of = 0;      // class
  bool is_pinned = false;
  bool is_lent = false;           // to a peer's sender
  slot_set* pool_next = nullptr;  // while free
};

class staging_store {
 public:
  // Bytes of a set and how many there may be. Small ones serve lone messages of a few KiB; the
  // large one holds four slots of 4 MiB, with which a pipeline GPU - host - GPU reached 50.4 of
  // 55.4 GB/s (2 slots 49.5, four of 1 MiB 42).
  struct size_class {
    std::size_t bytes;
    std::size_t most;
    std::size_t block;  // sets that are allocated and pinned together
  };
  static constexpr std::size_t CLASSES = 3;
  static constexpr std::array<size_class, CLASSES> CLASS = {{
      {std::size_t{8} << 10, 1024, 128},
      {std::size_t{256} << 10, 32, 4},
      {std::size_t{16} << 20, 4, 1},
  }};
  static constexpr std::size_t SMALL = CLASS[0].bytes;
  static constexpr std::size_t MOST = CLASS[CLASSES - 1].bytes;  // of any set

  staging_store(mem::arena& arena, mem::region_table& regions, devices& gpus)
      : arena_(arena), regions_(regions), devices_(gpus) {}
  ~staging_store();
  staging_store(const staging_store&) = delete;
  staging_store& operator=(const staging_store&) = delete;

  // A set for a message of that size, smaller than would be best if memory is short. Null: later,
  // when others are given back; `never` is set if there are none at all.
  slot_set* take(std::size_t size, bool& never) noexcept { return take(size, never, false); }
  // The same for a set that is to be filled by a peer.
  slot_set* take_to_lend(std::size_t size, bool& never) noexcept { return take(size, never, true); }
  void give(slot_set* set) noexcept;
  // How a message of that size uses a set.
  static wire::slots cut(const slot_set& set, std::size_t size) noexcept;
  // A peer's memory, mapped here, that copies will go to: pinned once, if possible.
  void pin_view(std::byte* at, std::size_t size) noexcept;
  // Mappings of peers are about to go: their pins, of which the next use makes new ones. May wait
  // for the GPU.
  void unpin_views() noexcept;
  // The accelerator is about to go.
  void unpin() noexcept;

 private:
  struct block {
    std::byte* at;
    std::size_t bytes;
    bool is_pinned;
    std::size_t first, count;  // in sets_
  };
  slot_set* take(std::size_t size, bool& never, bool lends) noexcept;
  slot_set* take_locked(std::size_t of, bool lends);
  void grow_locked(std::size_t of);
  void pin_locked(block& which) noexcept;

  mem::arena& arena_;
  mem::region_table& regions_;
  devices& devices_;
  std::mutex mutex_;  // guards everything below
  std::deque<slot_set> sets_;
  std::vector<block> blocks_;
  std::array<slot_set*, CLASSES> free_{};
  std::array<std::size_t, CLASSES> made_{};
  std::array<std::size_t, CLASSES> out_{};
  std::array<std::size_t, CLASSES> lent_{};     // of out_
  std::unordered_map<std::byte*, bool> views_;  // of peers' sets; true: pinned
  bool all_pinned_ = true;                      // no block waits to be pinned
};

}  // namespace lci::proto::gpu
