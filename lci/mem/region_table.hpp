// The registrations of this process: which addresses peers may read and write, named by {slot, generation}, so that a late, repeated or
// forged name finds nothing. Rows are also published in shared memory for peers that map it; the private copy is the authority.
// Threads: insert(), erase() and find() shared. remote_rows reads another process's rows through its mapping.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "lci/mem/arena.hpp"

namespace lci::mem {

struct region {
  void* address = nullptr;
  std::size_t size = 0;
};

struct region_name {
  std::uint32_t slot = 0;        // from 1
  std::uint32_t generation = 0;  // from 1
};

class region_table {
 public:
  static constexpr std::uint32_t MAX_REGIONS = 1u << 16;

  // One published row. `generation` is odd/even-free: 0 while the row is empty or being written.
  struct row {
    std::atomic<std::uint32_t> generation{0};
    std::uint32_t reserved = 0;
    std::atomic<std::uint64_t> address{0};
    std::atomic<std::uint64_t> size{0};
    std::uint64_t reserved2 = 0;
  };
  static_assert(sizeof(row) == 32);

  explicit region_table(arena& arena);  // allocates MAX_REGIONS rows (sparse memory)
  ~region_table();

  region_name insert(void* address, std::size_t size);  // throws argument_error when full
  // False when the name is not (or no longer) registered.
  bool erase(region_name name) noexcept;
  // The address of [offset, offset + size) inside the registration, or null when the name is unknown or the range is not inside.
  void* find(region_name name, std::uint64_t offset, std::size_t size) const noexcept;
  std::uint64_t rows_offset() const noexcept;  // of row 0 in the arena, for peers
  std::size_t live() const noexcept;

  // Reads a row of a peer's mapped table; nothing when the name is unknown or changed while reading.
  static std::optional<region> read_remote(const row* rows, region_name name) noexcept;

 private:
  struct entry {
    std::uint32_t generation = 0;
    bool live = false;
    region what;
  };
  arena& arena_;
  row* rows_;
  mutable std::mutex mutex_;
  std::vector<entry> entries_;        // index = slot; entry 0 unused
  std::vector<std::uint32_t> free_;   // slots to use again
};

}  // namespace lci::mem
