// Words of host memory that a GPU sets behind its copies, and that the target polls (flags.hpp).
// They lie in the sender's arena, pinned; the target hears beforehand which one to look at.
// Threads: shared. Always true: a word is free (0), taken by an operation of this process, or owned
// by the target until that makes it 0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lci/base/spinlock.hpp"
#include "lci/net/backend.hpp"
#include "lci/proto/engine/wire.hpp"
#include "lci/proto/gpu/staging_store.hpp"

namespace lci::proto::gpu {

using flag_word = std::atomic<std::uint64_t>;

class flag_words {
 public:
  static constexpr std::size_t WORDS = staging_store::SMALL / sizeof(flag_word);

  explicit flag_words(staging_store& store) noexcept : store_(store) {}
  // A word for one news, FLAG_TAKEN. Null: all are taken, or there is no pinned memory.
  flag_word* take() noexcept;
  // It was told nobody.
  static void give(flag_word* word) noexcept { word->store(0, std::memory_order_relaxed); }
  std::uint64_t place_of(const flag_word* word) const noexcept;

 private:
  staging_store& store_;
  base::spinlock lock_;  // guards the rest
  slot_set* set_ = nullptr;
  bool is_useless_ = false;
  std::size_t next_ = 0;
};

// A word at that place of a peer's arena; null: there is none, or we do not map it.
flag_word* find_word(net::fabric& fabric, int rank, std::uint64_t place) noexcept;

}  // namespace lci::proto::gpu
