// Lanes that were empty for long: each poll asks all of them whether they still are, in one glance
// at the header of the next message of each. Callers: inbox. Threads: single. Always true: a lane
// in here does not move on, so its next header stays where it is; there is room for as many lanes
// as reserve() was told.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "backends/shm/lane.hpp"

namespace lci::shm {

class silent_lanes {
 public:
  void reserve(std::size_t lanes);  // throws std::bad_alloc
  bool is_empty() const noexcept { return lanes_.empty(); }
  std::size_t size() const noexcept { return lanes_.size(); }
  // list() is to follow when all have been added or removed.
  void add(rx_lane& lane) noexcept { lanes_.push_back(&lane); }
  template <class Is>
  void remove_if(Is is) noexcept {
    std::erase_if(lanes_, is);
  }
  void list() noexcept;

  // Answers where the first group is that has something; end() if none has.
  std::size_t find() const noexcept;
  std::size_t end() const noexcept { return heads_.size(); }
  // Removes those from there on that have something, and calls take(lane) for each.
  template <class Take>
  void wake(std::size_t group, Take take) noexcept {
    const std::size_t filled_up = heads_for_set_ - lanes_for_set_;
    const auto first =
        static_cast<std::ptrdiff_t>(group < heads_for_set_ ? group : group - filled_up);
    const auto is_awake = [&take](rx_lane* lane) {
      if (lane->is_empty()) return false;
      take(*lane);
      return true;
    };
    lanes_.erase(std::remove_if(lanes_.begin() + first, lanes_.end(), is_awake), lanes_.end());
  }

  // Lanes that are asked at once.
  static constexpr std::size_t AT_ONCE = 8;

 private:
  using head = const std::atomic<std::uint64_t>*;
  template <class Join>
  std::uint64_t join_group(std::size_t at, Join join) const noexcept;

  // First those that wait for a lap bit that is set, then those that wait for one that is not.
  std::vector<rx_lane*> lanes_;
  // Where their next headers are. Each of the two kinds has whole groups of AT_ONCE, filled up with
  // a word that stays as it is.
  std::vector<head> heads_;
  std::size_t lanes_for_set_ = 0, heads_for_set_ = 0;  // of the first kind
};

template <class Join>
inline std::uint64_t silent_lanes::join_group(std::size_t at, Join join) const noexcept {
  // Relaxed: a thread that goes on reads it again, see rx_lane::look().
  const auto word = [all = heads_.data() + at](std::size_t k) {
    return all[k]->load(std::memory_order_relaxed);
  };
  static_assert(AT_ONCE == 8);
  return join(join(join(word(0), word(1)), join(word(2), word(3))),
              join(join(word(4), word(5)), join(word(6), word(7))));
}

// Loads that do not depend on each other and one branch for all of them: about a nanosecond for
// three lanes while their lines are in the first-level cache, so they are spread over its sets
// (first_slot_of).
inline std::size_t silent_lanes::find() const noexcept {
  const std::size_t middle = heads_for_set_, count = heads_.size();
  for (std::size_t at = 0; at < middle; at += AT_ONCE)
    if ((join_group(at, std::bit_or<>()) & LAP_BIT) != 0) [[unlikely]]
      return at;
  for (std::size_t at = middle; at < count; at += AT_ONCE)
    if ((join_group(at, std::bit_and<>()) & LAP_BIT) == 0) [[unlikely]]
      return at;
  return count;
}

inline void silent_lanes::reserve(std::size_t lanes) {
  lanes_.reserve(lanes);
  heads_.reserve(lanes + 2 * AT_ONCE);
}

inline void silent_lanes::list() noexcept {
  static constexpr std::array<std::atomic<std::uint64_t>, 2> NOTHING = {0, LAP_BIT};
  const auto middle = std::partition(lanes_.begin(), lanes_.end(),
                                     [](const rx_lane* lane) { return lane->waits_for_set_bit(); });
  heads_.clear();
  const auto add = [this](auto from, auto to, const std::atomic<std::uint64_t>& rest) {
    for (; from != to; ++from) heads_.push_back(&(*from)->next->header);
    while (heads_.size() % AT_ONCE != 0) heads_.push_back(&rest);
  };
  add(lanes_.begin(), middle, NOTHING[0]);
  lanes_for_set_ = static_cast<std::size_t>(middle - lanes_.begin());
  heads_for_set_ = heads_.size();
  add(middle, lanes_.end(), NOTHING[1]);
}

}  // namespace lci::shm
