// The less frequent parts of a synchronizer.
#include "lci/comp/sync.hpp"

#include <string>

#include "lci/base/race_point.hpp"
#include "lci/base/spin.hpp"
#include "lci/errors.hpp"

namespace lci::comp {
namespace {

std::uint32_t valid_threshold(int given) {
  if (given < 1 || given > sync::MAX_THRESHOLD)
    throw argument_error("alloc_sync: argument threshold is " + std::to_string(given) +
                         "; legal are 1 to " + std::to_string(sync::MAX_THRESHOLD));
  return static_cast<std::uint32_t>(given);
}

}  // namespace

sync::sync(const comp_attr_t& given)
    : of_kind(given),
      threshold_(valid_threshold(given.sync_threshold)),
      places_(threshold_ > 1 ? new place[threshold_] : &first_) {}

bool sync::take(status_t* out) noexcept {
  for (std::uint32_t i = 0; i < threshold_; ++i) {
    // edge sync.place, reader.
    if (!places_[i].is_filled.load(std::memory_order_acquire)) return false;
  }
  LCI_RACE_POINT("sync.take.between_look_and_claim");
  // All places may belong to a round that another tester takes, or even to a mix of that and the
  // next one: then claims_ is not threshold_, or the second look at the places shows it.
  // edge sync.round, reader.
  std::uint32_t expected = threshold_;
  if (!claims_.compare_exchange_strong(expected, TAKING, std::memory_order_acquire,
                                       std::memory_order_relaxed))
    return false;
  // Every place of this round is given out. Were they filled in the round that was looked at, or is
  // this a later one?
  for (std::uint32_t i = 0; i < threshold_; ++i) {
    if (!places_[i].is_filled.load(std::memory_order_acquire)) {
      // edge sync.round, writer; nothing was changed.
      claims_.store(threshold_, std::memory_order_release);
      return false;
    }
  }
  for (std::uint32_t i = 0; i < threshold_; ++i) {
    if (out != nullptr) out[i] = places_[i].status;
    // Relaxed: ordered by the store to claims_ below.
    places_[i].is_filled.store(false, std::memory_order_relaxed);
  }
  if (const loss known = loss_.load(std::memory_order_relaxed); known.rank != NOBODY) [[unlikely]]
    loss_.store({known.number, NOBODY}, std::memory_order_relaxed);
  // edge sync.round, writer: the places are empty and copied.
  claims_.store(0, std::memory_order_release);
  return true;
}

// The number of claims once a tester has made room. A tester that is copying is done in a moment,
// and the signal belongs to the next round; without one, the signal is one too many.
std::uint32_t sync::wait_for_room(std::uint32_t claims) const {
  base::spin_wait wait;
  while (claims == TAKING) {
    wait();
    claims = claims_.load(std::memory_order_relaxed);
  }
  if (claims < threshold_) return claims;
  throw argument_error("signal: synchronizer got more signals than its threshold of " +
                       std::to_string(threshold_) +
                       " before a sync_test() returned true; the status was dropped");
}

}  // namespace lci::comp
