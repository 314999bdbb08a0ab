// How many messages take about as long as was asked for: runs of more and more of them, until one
// takes half of that time. It has to take it twice: a process that stands still for a moment makes
// one run long, and the few messages of it would be the measurement of a whole row.
// Single thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lci_perf {

class calibration {
 public:
  // most: messages, more are not tried.
  calibration(std::uint64_t first, double wanted_ns, std::uint64_t most)
      : count_(std::clamp<std::uint64_t>(first, 1, most)), wanted_(wanted_ns), most_(most) {}

  // Messages of the next run, or at the end of a measurement.
  std::uint64_t count() const { return count_; }
  bool is_done() const { return is_done_; }
  // A run of `count` messages, which may be a few more than asked for, took so long.
  void took(std::uint64_t count, double ns) {
    ns = std::max(1.0, ns);
    const bool is_enough = ns >= 0.5 * wanted_ || count >= most_;
    if (is_enough && !is_second_) {
      is_second_ = true;
      first_ns_ = ns;
      return;
    }
    if (is_second_) ns = std::min(ns, first_ns_);
    is_second_ = false;
    const double n = static_cast<double>(count);
    if (ns >= 0.5 * wanted_ || count >= most_) {
      is_done_ = true;
      set(n * wanted_ / ns);
    } else {
      // Short runs are slower than long ones: go up in steps.
      set(n * std::clamp(wanted_ / ns, 2.0, 16.0));
    }
  }

 private:
  void set(double count) {
    count_ = static_cast<std::uint64_t>(std::clamp(count, 1.0, static_cast<double>(most_)));
  }

  std::uint64_t count_;
  const double wanted_;
  const std::uint64_t most_;
  double first_ns_ = 0;
  bool is_second_ = false, is_done_ = false;
};

}  // namespace lci_perf
