// What a device does about ranks that have ended: what waits for them is ended, and the program
// learns of those that failed or were still needed. Whether a rank has ended stands in
// net::peer_table alone; here is how far this device has acted on it, and which ranks have left a
// network that is not the runtime's default: they have ended for its devices only. One per engine;
// look_for_ended() is called in every round of progress. Threads: shared. Always true: the failure
// of a rank is reported once; what there was no memory for is done in the next round.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lci/base/platform.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/net/peer_table.hpp"
#include "lci/proto/engine/core.hpp"
#include "lci/proto/engine/part.hpp"
#include "lci/proto/engine/pending_errors.hpp"

namespace lci::proto {

class peer_watch final : private net::peer_table::subscriber {
 public:
  // Ends what waits; the engine.
  class listener {
   public:
    virtual void end_what_waits_for(int rank, peer_end how) noexcept = 0;
    // `rank` has left the job and all of it is in. Answers whether something ended by that.
    virtual bool end_what_stays_from(int rank) noexcept = 0;
    // Nothing of `rank` is on its way to this device.
    virtual bool has_all_of(int rank) const noexcept = 0;

   protected:
    ~listener() = default;
  };
  peer_watch(core& shared, pending_errors& errors, listener& to);  // throws std::bad_alloc
  ~peer_watch() { shared_.peers.unsubscribe(*this); }

  // The device belongs to a network that ranks may leave without leaving the runtime. Before the
  // first round of progress.
  void only_over(const net::fabric& network) noexcept { only_over_ = &network; }
  void look_for_ended() noexcept {
    // Relaxed: notice() reads it once more.
    if (has_news_.load(std::memory_order_relaxed)) [[unlikely]]
      notice();
  }
  // An operation has failed because `rank` has ended.
  LCI_COLD void miss(int rank) noexcept;
  // The network has said that nothing more comes from `rank` on this device; on others something
  // may.
  LCI_COLD void note_end(int rank, bool orderly, std::string_view reason) noexcept;
  // For this device.
  bool has_ended(int rank) const noexcept {
    return shared_.peers.epoch() != 0 && (shared_.peers.has_ended(rank) || has_left_here(rank));
  }
  // Throws peer_failure_error if it has.
  void check(int rank) const {
    if (has_ended(rank)) [[unlikely]]
      shared_.peers.throw_ended(rank);
  }
  // Nothing of `rank`, which has ended, is on its way to a device that a receive here may wait for.
  LCI_COLD bool is_all_in(int rank) const noexcept;
  // It has ended, or an operation has failed as if it had.
  LCI_COLD bool is_lost(int rank) noexcept;
  // A caller that finds less than all_here may leave the rest to notice(), which comes once more.
  LCI_COLD peer_end end_of(int rank) const noexcept;
  // What note_end() was told. Relaxed there and here: it is noted before the rank is reported, and
  // edges peers.epoch and peers.news bring it to all that ask.
  bool has_all_of(int rank) const noexcept {
    return has_all_of_[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed);
  }

 private:
  // Some rank is to be looked at, now or once more.
  void look_again() noexcept {
    // edge peers.news: what is known of the rank before; partner is notice(). An exchange, so that
    // none overwrites another's without going on with its release sequence.
    has_news_.exchange(true, std::memory_order_release);
  }
  void on_peer(int, net::peer_state now) noexcept override {
    if (now >= net::peer_state::left) look_again();
  }
  void on_part(int) noexcept override { look_again(); }
  bool has_left_here(int rank) const noexcept { return only_over_ != nullptr && has_all_of(rank); }
  LCI_COLD void notice() noexcept;

  core& shared_;
  pending_errors& errors_;
  listener& to_;
  const net::fabric* only_over_ = nullptr;  // null: the runtime's default network
  std::atomic<bool> has_news_{false};
  std::vector<std::atomic<bool>> has_all_of_;  // by rank
  base::spinlock lock_;                        // guards what follows
  std::vector<peer_end> acted_on_;             // by rank: for which end what waits was ended
  std::vector<bool> missed_;                   // by rank: the losses have it, failed or not
  std::vector<bool> to_miss_;                  // by rank: they should, and there was no memory
};

}  // namespace lci::proto
