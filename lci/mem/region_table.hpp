// The registrations of this process: which addresses peers may read and write, named by {slot,
// generation}, so that a late, repeated or forged name finds nothing. Rows are also published in
// shared memory for peers that map it; the private copy is the authority.
// Called by register_memory, by rendezvous (one insert and one erase each) and for each incoming
// put. Threads: insert(), erase() and find() shared; find() takes no lock. remote_rows reads
// another process's rows through its mapping. Always true: a row's generation is 0 while it is
// empty or being written; a name is given again only 2^32 - 1 registrations of its slot later.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "lci/base/spinlock.hpp"
#include "lci/mem/accelerator.hpp"
#include "lci/mem/arena.hpp"
#include "lci/mem/memory_kind.hpp"

namespace lci::mem {

struct region {
  void* address = nullptr;
  std::size_t size = 0;
  mem_kind kind = mem_kind::host;
  share_place share;  // of device memory that local peers can map
  // Device memory that the network has not registered: peers must not name it to other peers.
  bool off_network = false;
};

struct region_name {
  std::uint32_t slot = 0;        // from 1
  std::uint32_t generation = 0;  // from 1
};

class region_table {
 public:
  // Slots 1 .. MAX_REGIONS - 1.
  static constexpr std::uint32_t MAX_REGIONS = 1u << 20;

  // One row, published in shared memory and kept once more privately.
  struct row {
    std::atomic<std::uint32_t> generation{0};
    std::atomic<std::uint32_t> check{0};  // share_place::check
    std::atomic<std::uint64_t> address{0};
    std::atomic<std::uint64_t> size{0};
    std::atomic<std::uint64_t> share{
        0};  // share_place::record, and the flags below in its low bits
  };
  static constexpr std::uint64_t DEVICE = 1;       // GPU memory, shared or not
  static constexpr std::uint64_t OFF_NETWORK = 2;  // region::off_network
  static_assert(sizeof(row) == 32);

  explicit region_table(arena& arena);  // allocates MAX_REGIONS rows (sparse memory)
  ~region_table();
  region_table(const region_table&) = delete;
  region_table& operator=(const region_table&) = delete;

  // Throws argument_error for a null address with a size, or when the table is full.
  region_name insert(const region& what);
  region_name insert(void* address, std::size_t size) {
    return insert({address, size, mem_kind::host, {}, false});
  }
  // False when the name is not (or no longer) registered.
  bool erase(region_name name) noexcept;
  // The address of [offset, offset + size) inside the registration, or null when the name is
  // unknown or the range is not inside.
  void* find(region_name name, std::uint64_t offset, std::size_t size) const noexcept;
  // The whole registration; nothing when the name is unknown.
  std::optional<region> look_up(region_name name) const noexcept;
  std::uint64_t rows_offset() const noexcept { return arena_.offset_of(rows_); }
  std::size_t live() const noexcept;

  // Reads a row of a peer's mapped table; nothing when the name is unknown or changed while
  // reading.
  static std::optional<region> read_remote(const row* rows, region_name name) noexcept;
  // True if [offset, offset + size) is inside that registration, and it is of host memory.
  // name.slot is below MAX_REGIONS, size is not 0.
  static bool is_host_range(const row* rows, region_name name, std::uint64_t offset,
                            std::size_t size) noexcept;

 private:
  static constexpr std::uint32_t BLOCK = 1024;  // entries made at a time
  struct entry {
    row what;
    std::uint32_t last_generation = 0;  // under lock_
    std::uint32_t next_free = 0;        // under lock_
  };

  entry* entry_of(std::uint32_t slot) const noexcept;
  entry& make_entry(std::uint32_t slot);

  arena& arena_;
  row* rows_;
  // Entries never move, so that find() may read while others insert.
  std::atomic<entry*> blocks_[MAX_REGIONS / BLOCK] = {};
  mutable base::spinlock lock_;
  std::uint32_t free_ = 0;   // last freed slot: its row is still in the cache; 0 = none
  std::uint32_t fresh_ = 1;  // slots from here on were never used
  std::size_t live_ = 0;
};

// edge region.row: each load is ordered before the next; partners are the stores of a registration
// and of its end.
inline bool region_table::is_host_range(const row* rows, region_name name, std::uint64_t offset,
                                        std::size_t size) noexcept {
  const row& from = rows[name.slot];
  if (name.generation == 0 || from.generation.load(std::memory_order_acquire) != name.generation)
    return false;
  const std::uint64_t whole = from.size.load(std::memory_order_acquire);
  const std::uint64_t share = from.share.load(std::memory_order_acquire);
  if (from.generation.load(std::memory_order_acquire) != name.generation) return false;
  return (share & DEVICE) == 0 && offset <= whole && size <= whole - offset;
}

}  // namespace lci::mem
