// What is made of repeated measurements: medians, and how far they spread.
// Threads: any, nothing is kept.
#pragma once

#include <vector>

namespace lci_perf {

// The middle of all, and the quarter of them on each side of it.
struct spread {
  double median = 0, low = 0, high = 0;  // low and high: first and third quartile
  int count = 0;                         // 0: nothing was measured, and the others mean nothing
};

// Numbers that are not finite are left out.
spread spread_of(std::vector<double> values);

// How many times better `ours` is than `theirs`, round by round: the ratio is taken within a round,
// whose two measurements follow each other, and only then the median. Above 1: ours is better.
spread advantage(const std::vector<double>& ours, const std::vector<double>& theirs,
                 bool less_is_better);

// By how much `ours` is above `theirs`, round by round: for shares, whose ratio means nothing where
// one of them is 0.
spread difference(const std::vector<double>& ours, const std::vector<double>& theirs);

}  // namespace lci_perf
