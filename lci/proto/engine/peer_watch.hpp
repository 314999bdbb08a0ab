// What a device does about ranks that have ended: what waits for them is ended, and the program
// learns of those that failed or were still needed. Whether a rank has ended stands in
// net::peer_table alone; here is how far this device has acted on it. One per engine;
// look_for_ended() is called in every round of progress. Threads: shared. Always true: the failure
// of a rank is reported once; what there was no memory for is done in the next round.
#pragma once

#include <atomic>
#include <cstdint>
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

  void look_for_ended() noexcept {
    // Relaxed: notice() reads it once more.
    if (has_news_.load(std::memory_order_relaxed)) [[unlikely]]
      notice();
  }
  // An operation has failed because `rank` has ended.
  LCI_COLD void miss(int rank) noexcept;
  // It has ended, or an operation has failed as if it had.
  LCI_COLD bool is_lost(int rank) noexcept;
  // Who finds less than all_here may leave the rest to notice(), which comes once more.
  LCI_COLD peer_end end_of(int rank) const noexcept;
  // The network has said that nothing more comes from `rank` on this device; on others something
  // may. Relaxed, here and in has_all_of(): it is noted before the rank is reported, and edge
  // peers.news brings it to all who ask.
  void note_all_of(int rank) noexcept {
    has_all_of_[static_cast<std::size_t>(rank)].store(true, std::memory_order_relaxed);
  }
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
  LCI_COLD void notice() noexcept;

  core& shared_;
  pending_errors& errors_;
  listener& to_;
  std::atomic<bool> has_news_{false};
  std::vector<std::atomic<bool>> has_all_of_;  // by rank
  base::spinlock lock_;                        // guards what follows
  std::vector<peer_end> acted_on_;             // by rank: for which end what waits was ended
  std::vector<bool> missed_;                   // by rank: the losses have it, failed or not
  std::vector<bool> to_miss_;                  // by rank: they should, and there was no memory
};

}  // namespace lci::proto
