// What the threads of a packet pool share: the memory that packets are cut from, the packets that
// no thread keeps in its cache, and the right to lend. Used by packet_pool only. Threads: shared; a
// spinlock around a few instructions, a mutex for growth. Always true: never more than `limit`
// packets are cut.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "lci/base/spinlock.hpp"
#include "lci/mem/arena.hpp"
#include "lci/mem/packet_cache.hpp"

namespace lci::mem {

class packet_store {
 public:
  packet_store(arena& arena, packet_home* pool, std::size_t packet_size, std::size_t limit);
  ~packet_store();
  packet_store(const packet_store&) = delete;
  packet_store& operator=(const packet_store&) = delete;

  // Fills an empty magazine with stored or newly cut packets. False: none could be had.
  bool fill(magazine& into) noexcept;
  // Takes all packets of a magazine.
  void drain(magazine& from) noexcept;

  // Rights to lend: up to `wanted`, maybe fewer, maybe none.
  std::uint32_t take_credits(std::uint32_t wanted) noexcept;
  void return_credits(std::uint32_t n) noexcept;

  // Whether it was cut from this memory.
  bool has(const packet* p) noexcept;
  std::size_t allocated() const noexcept { return cut_.load(std::memory_order_relaxed); }
  std::size_t pooled() const noexcept { return stored_.load(std::memory_order_relaxed); }
  // The memory goes back to the arena with the store only if this is called.
  void free_memory_at_end() noexcept { all_home_ = true; }

 private:
  // How many are cut together; few, so that memory that is never used is never touched.
  static constexpr std::uint32_t CUT = 8;
  static constexpr std::size_t CHUNK_BYTES = std::size_t{512} << 10;

  struct chunk {
    std::byte* start = nullptr;
    std::size_t packets = 0;
  };
  bool cut(magazine& into) noexcept;
  bool grow() noexcept;

  arena& arena_;
  packet_home* pool_;
  const std::size_t capacity_;
  const std::size_t stride_;
  const std::size_t limit_;
  const std::size_t chunk_packets_;

  base::spinlock lock_;
  packet* chains_ =
      nullptr;  // full or partial magazines: `length` holds the count, `note` the next
  std::size_t credits_;
  std::byte* fresh_ = nullptr;  // not yet cut: fresh_packets_ strides from there
  std::size_t fresh_packets_ = 0;
  std::atomic<std::size_t> stored_{0};  // packets in chains_; written under lock_
  std::atomic<std::size_t> cut_{0};     // written under lock_

  std::mutex growing_;
  std::vector<chunk> chunks_;  // under growing_
  std::size_t reserved_ = 0;   // packets that the chunks have room for; under growing_
  bool all_home_ = false;
};

}  // namespace lci::mem
