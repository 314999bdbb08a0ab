// Words of host memory that a GPU sets behind its copies, and that the target polls (flags.hpp).
// They lie in the sender's arena, pinned; the target is told beforehand which one to look at.
// Threads: shared. Always true: a word is free (0), taken by an operation of this process, or owned
// by the target until that makes it 0. Of a target that has ended we take it back when its process
// has exited, and not before: one that has merely left, or cannot be reached, may still write it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lci/base/spinlock.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/peer_table.hpp"
#include "lci/proto/engine/wire.hpp"
#include "lci/proto/gpu/staging_store.hpp"

namespace lci::proto::gpu {

using flag_word = std::atomic<std::uint64_t>;

class flag_words {
 public:
  static constexpr std::size_t WORDS = staging_store::SMALL / sizeof(flag_word);

  explicit flag_words(staging_store& store) noexcept : store_(store) {}
  // A word for one news, FLAG_TAKEN. Null: all are taken, or there is no pinned memory.
  flag_word* take() noexcept { return take_for(NOBODY); }
  // The same for news of which that rank is to be told; where there is none, now and then those of
  // ranks whose process has exited are taken back.
  flag_word* take_for(int target, net::fabric& fabric, const net::peer_table& peers) noexcept;
  // No rank was told of it.
  static void give(flag_word* word) noexcept { word->store(0, std::memory_order_relaxed); }
  std::uint64_t place_of(const flag_word* word) const noexcept;

 private:
  static constexpr int NOBODY = -1;
  flag_word* take_for(int target) noexcept;
  bool is_time_to_look() noexcept;
  void take_back(int target) noexcept;
  flag_word* words_locked() noexcept { return reinterpret_cast<flag_word*>(set_->at); }

  staging_store& store_;
  base::spinlock lock_;  // guards the rest
  slot_set* set_ = nullptr;
  bool is_useless_ = false;
  std::size_t next_ = 0;
  std::size_t look_at_ = 0;             // next_ from which on it is time to look for ended ranks
  std::array<int, WORDS> target_of_{};  // of words that are not free
};

// A word at that place of a peer's arena; null: there is none, or we do not map it.
flag_word* find_word(net::fabric& fabric, int rank, std::uint64_t place) noexcept;

}  // namespace lci::proto::gpu
