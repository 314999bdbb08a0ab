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

void peer_watch::note_end(int rank, bool orderly, std::string_view reason) noexcept {
  has_all_of_[static_cast<std::size_t>(rank)].store(true, std::memory_order_relaxed);
  net::peer_table& peers = shared_.peers;
  // The rank's other networks are none of this one's business.
  if (orderly && only_over_ != nullptr) return peers.part(rank, reason);
  // Known already: that nothing more comes here may end what other devices wait for.
  if (!peers.report(rank, orderly ? net::peer_event::leave : net::peer_event::fail, reason))
    peers.remind(rank);
}

bool peer_watch::is_all_in(int rank) const noexcept {
  return shared_.is_all_in(rank) ||
         (has_left_here(rank) && shared_.is_all_in_over(*only_over_, rank));
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
  if (has_ended(rank)) return true;
  const std::lock_guard lock(lock_);
  return missed_[static_cast<std::size_t>(rank)];
}

peer_end peer_watch::end_of(int rank) const noexcept {
  const net::peer_state now = shared_.peers.state(rank);
  if (now < net::peer_state::left) return has_left_here(rank) ? peer_end::all_here : peer_end::none;
  if (now == net::peer_state::failed) return peer_end::failed;
  return to_.has_all_of(rank) ? peer_end::all_here : peer_end::left;
}

// Some rank has ended, perhaps for one network only. Reports each failure once.
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
    if (!has_failed && is_all_in(rank) && to_.end_what_stays_from(rank)) miss(rank);
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
