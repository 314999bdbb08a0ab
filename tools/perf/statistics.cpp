#include "tools/perf/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace lci_perf {

namespace {

// Between two values in proportion, as most programs do it.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

spread spread_of(std::vector<double> values) {
  values.erase(std::remove_if(values.begin(), values.end(),
                              [](double value) { return !std::isfinite(value); }),
               values.end());
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75),
          static_cast<int>(values.size())};
}

spread advantage(const std::vector<double>& ours, const std::vector<double>& theirs,
                 bool less_is_better) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i)
    ratios.push_back(less_is_better ? theirs[i] / ours[i] : ours[i] / theirs[i]);
  return spread_of(std::move(ratios));
}

spread difference(const std::vector<double>& ours, const std::vector<double>& theirs) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i)
    differences.push_back(ours[i] - theirs[i]);
  return spread_of(std::move(differences));
}

}  // namespace lci_perf
