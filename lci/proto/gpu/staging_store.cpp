#include "lci/proto/gpu/staging_store.hpp"

#include <algorithm>
#include <string>

#include "lci/base/log.hpp"

namespace lci::proto::gpu {

staging_store::~staging_store() {
  unpin();
  for (const slot_set& set : sets_) regions_.erase(set.region);
  for (const block& b : blocks_) arena_.free(b.at, b.bytes);
}

slot_set* staging_store::take(std::size_t size, bool& never, bool lends) noexcept {
  never = false;
  std::size_t best = 0;
  while (best + 1 < CLASSES && CLASS[best].bytes < size) ++best;
  const std::lock_guard lock(mutex_);
  // Smaller classes carry any size too, only slower.
  for (std::size_t of = best + 1; of-- > 0;) {
    try {
      if (slot_set* const set = take_locked(of, lends); set != nullptr) return set;
    } catch (const std::exception& problem) {
      base::log::info("proto", "no memory for staging sets of %zu bytes: %s", CLASS[of].bytes,
                      problem.what());
      continue;  // memory is short: a smaller class
    }
    return nullptr;  // all of them are in use: soon
  }
  never = std::all_of(out_.begin(), out_.end(), [](std::size_t n) { return n == 0; });
  return nullptr;
}

slot_set* staging_store::take_locked(std::size_t of, bool lends) {
  // A quarter of what there is stays for our own senders.
  const auto is_short = [&] {
    return free_[of] == nullptr || (lends && lent_[of] >= made_[of] - made_[of] / 4);
  };
  while (is_short()) {
    if (made_[of] >= CLASS[of].most) return nullptr;
    grow_locked(of);
  }
  if (!all_pinned_) {
    all_pinned_ = true;
    for (block& b : blocks_)
      if (!b.is_pinned) pin_locked(b);
  }
  slot_set* const set = free_[of];
  free_[of] = set->pool_next;
  set->is_lent = lends;
  ++out_[of];
  if (lends) ++lent_[of];
  return set;
}

void staging_store::grow_locked(std::size_t of) {
  const size_class& what = CLASS[of];
  const std::size_t total = what.bytes * what.block;
  auto* const at = static_cast<std::byte*>(arena_.allocate(total, 4096));
  blocks_.push_back({at, total, false, sets_.size(), what.block});
  for (std::size_t i = 0; i < what.block; ++i) {
    slot_set& set = sets_.emplace_back();
    set.at = at + i * what.bytes;
    set.bytes = what.bytes;
    set.of = static_cast<std::uint8_t>(of);
    set.place = arena_.offset_of(set.at);
    set.region = regions_.insert(set.at, set.bytes);
    set.pool_next = free_[of];
    free_[of] = &set;
  }
  made_[of] += what.block;
  pin_locked(blocks_.back());
}

// Without an accelerator here only the peer's side needs it pinned, and does that by itself.
void staging_store::pin_locked(block& which) noexcept {
  mem::accelerator* const gpu = devices_.running();
  if (gpu == nullptr) {
    all_pinned_ = false;
    return;
  }
  try {
    const std::string why = gpu->pin(which.at, which.bytes);
    if (!why.empty()) {
      base::log::info("proto", "staging memory stays pageable, copies are slower: %s", why.c_str());
      return;
    }
  } catch (...) {
    return;
  }
  which.is_pinned = true;
  for (std::size_t i = 0; i < which.count; ++i) sets_[which.first + i].is_pinned = true;
}

void staging_store::give(slot_set* set) noexcept {
  const std::lock_guard lock(mutex_);
  set->pool_next = free_[set->of];
  free_[set->of] = set;
  --out_[set->of];
  if (set->is_lent) --lent_[set->of];
}

wire::slots staging_store::cut(const slot_set& set, std::size_t size) noexcept {
  constexpr std::size_t COUNT = 4;
  constexpr std::size_t LEAST = std::size_t{64} << 10;
  if (size <= set.bytes && size <= LEAST) return {static_cast<std::uint32_t>(set.bytes), 1};
  if (set.bytes < LEAST * COUNT) {
    return {static_cast<std::uint32_t>(set.bytes / COUNT), static_cast<std::uint32_t>(COUNT)};
  }
  // Short messages in as many pieces as there are slots, so that both sides work at once.
  const std::size_t share = (size / COUNT + LEAST) / LEAST * LEAST;
  return {static_cast<std::uint32_t>(std::clamp(share, LEAST, set.bytes / COUNT)),
          static_cast<std::uint32_t>(COUNT)};
}

void staging_store::pin_view(std::byte* at, std::size_t size) noexcept {
  mem::accelerator* const gpu = devices_.running();
  if (gpu == nullptr) return;
  const std::lock_guard lock(mutex_);
  try {
    const auto [known, is_new] = views_.try_emplace(at, false);
    if (!is_new) return;
    const std::string why = gpu->pin(at, size);
    if (!why.empty()) base::log::info("proto", "a peer's staging memory: %s", why.c_str());
    known->second = why.empty();
  } catch (...) {  // stays pageable
  }
}

void staging_store::unpin_views() noexcept {
  mem::accelerator* const gpu = devices_.running();
  const std::lock_guard lock(mutex_);
  for (const auto& [at, is_pinned] : views_)
    if (is_pinned && gpu != nullptr) gpu->unpin(at);
  views_.clear();
}

void staging_store::unpin() noexcept {
  unpin_views();
  mem::accelerator* const gpu = devices_.running();
  const std::lock_guard lock(mutex_);
  for (block& b : blocks_) {
    if (b.is_pinned && gpu != nullptr) gpu->unpin(b.at);
    b.is_pinned = false;
  }
}

}  // namespace lci::proto::gpu
