#include "lci/proto/engine/peer_watch.hpp"

#include <mutex>

namespace lci::proto {

peer_watch::peer_watch(core& shared, pending_errors& errors, listener& to)
    : shared_(shared),
      errors_(errors),
      to_(to),
      has_ended_(static_cast<std::size_t>(shared.n)),
      reported_(static_cast<std::size_t>(shared.n)),
      missed_(static_cast<std::size_t>(shared.n)),
      to_miss_(static_cast<std::size_t>(shared.n)) {}

// Deaths are reported by notice(). That a peer took leave is no error, unless it was still needed:
// then it is one, once.
void peer_watch::miss(int rank) noexcept {
  if (shared_.has_died(rank)) return;
  {
    const std::lock_guard lock(lock_);
    if (missed_[static_cast<std::size_t>(rank)]) return;
    missed_[static_cast<std::size_t>(rank)] = true;
  }
  if (errors_.add_loss(rank)) return;
  {
    const std::lock_guard lock(lock_);
    missed_[static_cast<std::size_t>(rank)] = false;
    to_miss_[static_cast<std::size_t>(rank)] = true;
  }
  look_again();
}

// What there was no memory for is done in the next round.
void peer_watch::look_again() noexcept {
  const std::lock_guard lock(lock_);
  is_to_look_again_ = true;
  seen_epoch_.store(LOOK_AGAIN, std::memory_order_relaxed);
}

bool peer_watch::is_lost(int rank) noexcept {
  if (shared_.is_gone(rank)) return true;
  const std::lock_guard lock(lock_);
  return missed_[static_cast<std::size_t>(rank)];
}

// Some peer is gone. Reports each death once.
void peer_watch::notice() noexcept {
  const std::uint32_t epoch = shared_.failure_epoch();
  {
    const std::lock_guard lock(lock_);
    is_to_look_again_ = false;
  }
  for (int rank = 0; rank < shared_.n; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    bool is_to_be_missed;
    {
      const std::lock_guard lock(lock_);
      is_to_be_missed = to_miss_[at];
      to_miss_[at] = false;
    }
    if (is_to_be_missed) miss(rank);
    if (!shared_.is_gone(rank)) continue;
    // Once: it may die meanwhile, also after it took leave of another device.
    const end how = shared_.has_died(rank) ? end::died : end::left;
    if (how == end::left && shared_.is_all_in(rank) && to_.end_what_stays_from(rank)) miss(rank);
    end before;
    bool is_told;
    {
      const std::lock_guard lock(lock_);
      before = reported_[at];
      if (before >= how) continue;
      reported_[at] = how;
      is_told = missed_[at];
    }
    to_.end_what_waits_for(rank, how == end::died);
    if (how != end::died || is_told || errors_.add_loss(rank)) continue;
    {
      const std::lock_guard lock(lock_);
      reported_[at] = before;
    }
    look_again();
  }
  const std::lock_guard lock(lock_);
  if (!is_to_look_again_) seen_epoch_.store(epoch, std::memory_order_relaxed);
}

}  // namespace lci::proto
