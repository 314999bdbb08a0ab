#include "lci/proto/engine/peer_watch.hpp"

#include <mutex>

namespace lci::proto {

peer_watch::peer_watch(core& shared, pending_errors& errors, listener& to)
    : shared_(shared),
      errors_(errors),
      to_(to),
      has_all_of_(static_cast<std::size_t>(shared.n)),
      acted_on_(static_cast<std::size_t>(shared.n)),
      missed_(static_cast<std::size_t>(shared.n)),
      to_miss_(static_cast<std::size_t>(shared.n)) {
  shared.peers.subscribe(*this);
  // What was reported before.
  if (shared.peers.epoch() != 0) look_again();
}

// Failures are reported by notice(). That a peer has left is no error, unless it was still needed:
// then it is one, once.
void peer_watch::miss(int rank) noexcept {
  {
    const std::lock_guard lock(lock_);
    // Under the lock: a failure that is overlooked here has not been reported by notice(), which
    // then finds it missed.
    if (shared_.peers.has_failed(rank) || missed_[static_cast<std::size_t>(rank)]) return;
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

bool peer_watch::is_lost(int rank) noexcept {
  if (shared_.peers.has_ended(rank)) return true;
  const std::lock_guard lock(lock_);
  return missed_[static_cast<std::size_t>(rank)];
}

peer_end peer_watch::end_of(int rank) const noexcept {
  const net::peer_state now = shared_.peers.state(rank);
  if (now < net::peer_state::left) return peer_end::none;
  if (now == net::peer_state::failed) return peer_end::failed;
  return to_.has_all_of(rank) ? peer_end::all_here : peer_end::left;
}

// Some rank has ended. Reports each failure once.
void peer_watch::notice() noexcept {
  // edge peers.news: partner is look_again(). First, so that none is overlooked.
  if (!has_news_.exchange(false, std::memory_order_acquire)) return;
  for (int rank = 0; rank < shared_.n; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    bool is_to_be_missed;
    {
      const std::lock_guard lock(lock_);
      is_to_be_missed = to_miss_[at];
      to_miss_[at] = false;
    }
    if (is_to_be_missed) miss(rank);
    // Once: it may fail meanwhile, also after it left another device.
    const peer_end now = end_of(rank);
    if (now == peer_end::none) continue;
    const bool has_failed = now == peer_end::failed;
    if (!has_failed && shared_.is_all_in(rank) && to_.end_what_stays_from(rank)) miss(rank);
    peer_end before;
    bool is_told;
    {
      const std::lock_guard lock(lock_);
      before = acted_on_[at];
      if (before >= now) continue;
      acted_on_[at] = now;
      is_told = missed_[at];
    }
    to_.end_what_waits_for(rank, now);
    if (!has_failed || is_told || errors_.add_loss(rank)) continue;
    {
      const std::lock_guard lock(lock_);
      acted_on_[at] = before;
    }
    look_again();
  }
}

}  // namespace lci::proto
