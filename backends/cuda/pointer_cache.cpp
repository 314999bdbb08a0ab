#include "backends/cuda/pointer_cache.hpp"

#include <cstring>
#include <type_traits>

#include "lci/base/race_point.hpp"

namespace lci::cuda {

static_assert(std::is_trivially_copyable_v<allocation>);

classified pointer_cache::find(const void* pointer) noexcept {
  const abi::functions* const call = driver_.in_process();
  const glance now = look(call, pointer);
  if (now.error) return {now.error, {}};
  if (now.is_plain_host) return {};
  slot& place = slots_[now.buffer_id % SLOTS];
  classified known;
  if (now.buffer_id != 0 && read(place, known.what) && known.what.id.buffer_id == now.buffer_id &&
      known.what.base == now.base && known.what.size == now.size) {
    // Statistics only; a lost count is no harm, a locked instruction would be.
    hits_.store(hits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return known;
  }
  classified fresh = classify(call, pointer);
  const bool lasts = fresh.what.kind != allocation_kind::vmm &&
                     fresh.what.kind != allocation_kind::unmapped &&
                     fresh.what.id.buffer_id == now.buffer_id;
  if (!fresh.error && lasts && now.buffer_id != 0) write(place, fresh.what);
  return fresh;
}

bool pointer_cache::read(const slot& from, allocation& out) const noexcept {
  // edge cuda.pointer_slot: an even number means that the words written before it are there;
  // partner is the release store in write().
  const std::uint32_t before = from.sequence.load(std::memory_order_acquire);
  if (before == 0 || before % 2 != 0) return false;
  std::array<std::uint64_t, WORDS> copy;
  for (std::size_t i = 0; i < WORDS; ++i) {
    LCI_RACE_POINT("pointer_cache.read.between_two_words");
    // edge cuda.pointer_slot: acquire keeps the second look at the number behind these loads, so
    // a word of a later record comes with a changed number.
    copy[i] = from.words[i].load(std::memory_order_acquire);
  }
  if (from.sequence.load(std::memory_order_relaxed) != before) return false;
  std::memcpy(static_cast<void*>(&out), copy.data(), sizeof(out));
  return true;
}

void pointer_cache::write(slot& to, const allocation& what) noexcept {
  std::uint32_t even = to.sequence.load(std::memory_order_relaxed);
  // Another thread is writing: it remembers its own, we just do not. edge cuda.pointer_slot: the
  // words of the writer before were stored before ours.
  if (even % 2 != 0 || !to.sequence.compare_exchange_strong(
                           even, even + 1, std::memory_order_acquire, std::memory_order_relaxed)) {
    return;
  }
  std::array<std::uint64_t, WORDS> copy{};
  std::memcpy(copy.data(), &what, sizeof(what));
  for (std::size_t i = 0; i < WORDS; ++i) {
    // edge cuda.pointer_slot: release, so that a reader of a new word also sees the odd number.
    to.words[i].store(copy[i], std::memory_order_release);
  }
  to.sequence.store(even + 2, std::memory_order_release);  // edge cuda.pointer_slot
}

}  // namespace lci::cuda
