// Which writes to a peer are complete: they complete in any order, and a notification waits for all
// before it. Owned by link. Threads: single. Always true: numbers are given from 1 upward without
// gaps; all up to complete_through() are complete.
#pragma once

#include <cstdint>
#include <deque>

namespace lci::transports {

class write_order {
 public:
  // A write begins; its number.
  std::uint64_t begin() {
    is_complete_.push_back(false);
    return through_ + is_complete_.size();
  }
  void complete(std::uint64_t number) {
    is_complete_[number - through_ - 1] = true;
    while (!is_complete_.empty() && is_complete_.front()) {
      is_complete_.pop_front();
      ++through_;
    }
  }
  std::uint64_t last() const noexcept { return through_ + is_complete_.size(); }
  std::uint64_t complete_through() const noexcept { return through_; }

 private:
  std::uint64_t through_ = 0;
  std::deque<bool> is_complete_;  // of those behind
};

}  // namespace lci::transports
