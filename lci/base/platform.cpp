#include "lci/base/platform.hpp"

#include <chrono>

namespace lci::base {

std::uint64_t ticks_per_ms() {
  static const std::uint64_t rate = [] {
    using clock = std::chrono::steady_clock;
    const auto t0 = clock::now();
    const std::uint64_t c0 = cpu_ticks();
    while (clock::now() - t0 < std::chrono::milliseconds(2)) cpu_relax();
    const std::uint64_t c1 = cpu_ticks();
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - t0).count();
    return (c1 - c0) * 1'000'000 / static_cast<std::uint64_t>(ns);
  }();
  return rate;
}

}  // namespace lci::base
