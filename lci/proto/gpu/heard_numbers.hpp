// Which numbers of a rising sequence have arrived, if they may come in any order and some never.
// Each number says from which one on there is anything to wait for. Threads: single. Always true:
// is_whole() is true only if all from there up to the greatest one have arrived.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lci::proto::gpu {

class heard_numbers {
 public:
  // Numbers ahead of a missing one that are remembered. What arrives beyond that counts as missing.
  static constexpr std::uint64_t AHEAD = 64;

  // number > since: nothing less than number - since is to be waited for.
  void hear(std::uint64_t number, std::uint64_t since) noexcept {
    last_ = std::max(last_, number);
    move_to(number - since - 1);
    if (number > through_ && number - through_ <= AHEAD) {
      ahead_ |= std::uint64_t{1} << (number - through_ - 1);
      while ((ahead_ & 1) != 0) move_to(through_ + 1);
    }
  }
  bool is_whole() const noexcept { return through_ == last_; }

 private:
  void move_to(std::uint64_t through) noexcept {
    if (through <= through_) return;
    const std::uint64_t step = through - through_;
    ahead_ = step < AHEAD ? ahead_ >> step : 0;
    through_ = through;
  }

  std::uint64_t through_ = 0;  // nothing up to here is missing
  std::uint64_t last_ = 0;     // the greatest one
  std::uint64_t ahead_ = 0;    // bit i: through_ + 1 + i has arrived
};

}  // namespace lci::proto::gpu
