#include "lci/proto/gpu/flag_words.hpp"

#include <cstring>
#include <mutex>
#include <utility>

namespace lci::proto::gpu {

flag_word* flag_words::take() noexcept {
  const std::lock_guard lock(lock_);
  if (is_useless_) return nullptr;
  if (set_ == nullptr) {
    bool never = false;
    set_ = store_.take(staging_store::SMALL, never);
    is_useless_ = set_ == nullptr || !set_->is_pinned;
    if (is_useless_) {
      if (set_ != nullptr) store_.give(std::exchange(set_, nullptr));
      return nullptr;
    }
    std::memset(set_->at, 0, set_->bytes);
  }
  auto* const words = reinterpret_cast<flag_word*>(set_->at);
  // The oldest first: it is most likely free. A target that keeps words costs a few looks.
  for (int looks = 0; looks < 8; ++looks) {
    flag_word& word = words[next_++ % WORDS];
    // edge flag.free: the target is done with the word; partner is awaited_flags::poll().
    if (word.load(std::memory_order_acquire) != 0) continue;
    word.store(wire::FLAG_TAKEN, std::memory_order_relaxed);
    return &word;
  }
  return nullptr;
}

std::uint64_t flag_words::place_of(const flag_word* word) const noexcept {
  return set_->place +
         static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(word) - set_->at);
}

flag_word* find_word(net::fabric& fabric, int rank, std::uint64_t place) noexcept {
  constexpr std::uint64_t LINE = base::CACHE_LINE;
  if (place % sizeof(flag_word) != 0) return nullptr;
  std::byte* const line = fabric.reach(rank, place / LINE * LINE, LINE);
  return line == nullptr ? nullptr : reinterpret_cast<flag_word*>(line + place % LINE);
}

}  // namespace lci::proto::gpu
