#include "lci/proto/gpu/flag_words.hpp"

#include <signal.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

namespace lci::proto::gpu {

namespace {

// Answers false where it is not known: of processes of other machines and of those not visible. A
// number that another process has by now says the same.
bool is_gone(int process) noexcept {
  return process > 0 && kill(process, 0) != 0 && errno == ESRCH;
}

}  // namespace

flag_word* flag_words::take_for(int target) noexcept {
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
  flag_word* const words = words_locked();
  // The oldest first: it is most likely free. A target that keeps words costs a few looks.
  for (int looks = 0; looks < 8; ++looks) {
    const std::size_t at = next_++ % WORDS;
    flag_word& word = words[at];
    // edge flag.free: the target is done with the word; partner is awaited_flags::poll().
    if (word.load(std::memory_order_acquire) != 0) continue;
    word.store(wire::FLAG_TAKEN, std::memory_order_relaxed);
    target_of_[at] = target;
    return &word;
  }
  return nullptr;
}

flag_word* flag_words::take_for(int target, net::fabric& fabric,
                                const net::peer_table& peers) noexcept {
  flag_word* const word = take_for(target);
  if (word != nullptr || peers.epoch() == 0 || !is_time_to_look()) return word;
  for (int rank = 0; rank < peers.size(); ++rank)
    if (peers.has_ended(rank) && is_gone(fabric.process_of(rank))) take_back(rank);
  return take_for(target);
}

// Once for as many looks as there are words, or each copy would pay for it while all are taken.
bool flag_words::is_time_to_look() noexcept {
  const std::lock_guard lock(lock_);
  if (set_ == nullptr || next_ < look_at_) return false;
  look_at_ = next_ + WORDS;
  return true;
}

// That target's process has exited, so only our own GPU and processor write them: each once, and
// what they write is here.
void flag_words::take_back(int target) noexcept {
  const std::lock_guard lock(lock_);
  flag_word* const words = words_locked();
  for (std::size_t i = 0; i < WORDS; ++i) {
    if (target_of_[i] != target) continue;
    const std::uint64_t value = words[i].load(std::memory_order_acquire);  // edge flag.set
    if (value == wire::FLAG_SET || value == wire::FLAG_VOID) give(&words[i]);
  }
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
