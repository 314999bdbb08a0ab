// Which peers of a device are gone, and what has been done about it: what waits for them is ended,
// and the program hears of those that died or were still needed. One per engine; look_for_gone() is
// called in every round of progress. Threads: shared. Always true: the death of a rank is reported
// once; what there was no memory for is done in the next round.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "lci/base/platform.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/proto/engine/core.hpp"
#include "lci/proto/engine/pending_errors.hpp"

namespace lci::proto {

class peer_watch {
 public:
  // Ends what waits; the engine.
  class listener {
   public:
    virtual void end_what_waits_for(int rank, bool has_died) noexcept = 0;
    // `rank` has left the job and all of it is in. Answers whether something ended by that.
    virtual bool end_what_stays_from(int rank) noexcept = 0;

   protected:
    ~listener() = default;
  };
  peer_watch(core& shared, pending_errors& errors, listener& to);  // throws std::bad_alloc

  void look_for_gone() noexcept {
    if (shared_.failure_epoch() != seen_epoch_.load(std::memory_order_relaxed)) [[unlikely]]
      notice();
  }
  // An operation has failed because `rank` is gone.
  LCI_COLD void miss(int rank) noexcept;
  // It is gone, or an operation has failed as if it were.
  LCI_COLD bool is_lost(int rank) noexcept;
  // The network has said that nothing more comes from `rank` on this device. Relaxed, here and in
  // has_ended(): an end is noted before core.gone, whose edge brings it to who asks.
  void note_end(int rank) noexcept {
    has_ended_[static_cast<std::size_t>(rank)].store(true, std::memory_order_relaxed);
  }
  bool has_ended(int rank) const noexcept {
    return has_ended_[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed);
  }

 private:
  // Of core::failure_epoch(); LOOK_AGAIN: what there was no memory for is still to be done.
  static constexpr std::uint32_t LOOK_AGAIN = ~std::uint32_t{0};
  enum class end : std::uint8_t { none, left, died };

  LCI_COLD void notice() noexcept;
  void look_again() noexcept;

  core& shared_;
  pending_errors& errors_;
  listener& to_;
  std::atomic<std::uint32_t> seen_epoch_{0};
  std::vector<std::atomic<bool>> has_ended_;  // by rank
  base::spinlock lock_;                       // guards what follows
  std::vector<end> reported_;                 // by rank: what it leaves behind was ended
  std::vector<bool> missed_;                  // by rank: the losses have it, dead or not
  std::vector<bool> to_miss_;                 // by rank: they should, and there was no memory
  bool is_to_look_again_ = false;
};

}  // namespace lci::proto
