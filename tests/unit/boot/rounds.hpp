// Rounds that a test counts, and one of which does something.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

#include "lci/boot/bootstrap.hpp"
#include "lci/boot/meanwhile.hpp"

namespace lci::boot {

class counted_rounds final : public meanwhile {
 public:
  static constexpr int ENOUGH = 5;
  explicit counted_rounds(std::function<void()> in_the_last = [] {})
      : in_the_last_(std::move(in_the_last)) {}
  bool progress() noexcept override {
    if (++rounds == ENOUGH) in_the_last_();
    return rounds % 2 == 0;
  }
  bool is_all_out() const noexcept override { return is_always_out || rounds >= ENOUGH; }
  int rounds = 0;
  bool is_always_out = false;

 private:
  const std::function<void()> in_the_last_;
};

// Two ranks, one of which comes to its fence only once a round of the other one has let it. Made
// before the ranks are.
class late_rank {
 public:
  explicit late_rank(int rank) : rank_(rank) {
    if (::pipe(ends_) != 0) std::abort();
  }
  ~late_rank() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  late_rank(const late_rank&) = delete;
  late_rank& operator=(const late_rank&) = delete;

  // In a rank: "ok", or what is wrong.
  std::string fence(bootstrap& boot) const {
    char byte = 0;
    if (boot.rank() == rank_) {
      if (::read(ends_[0], &byte, 1) != 1) return "nothing to read";
      boot.fence();
      return "ok";
    }
    counted_rounds work([&] {
      if (::write(ends_[1], &byte, 1) != 1) std::abort();
    });
    work.is_always_out = true;  // rounds before the fence would not do
    boot.fence_with(&work);
    return work.rounds >= counted_rounds::ENOUGH ? "ok" : "too few rounds";
  }

 private:
  const int rank_;
  int ends_[2];
};

}  // namespace lci::boot
