#include "lci/base/platform.hpp"

#include <chrono>

namespace lci::base {

namespace {

using clock = std::chrono::steady_clock;

// Long enough for 0.1 %, short enough for hundreds of processes that start on a few cores at once.
constexpr std::chrono::microseconds MEASURED{200};

struct both_clocks {
  clock::time_point time;
  std::uint64_t ticks;
};

// The tightest of a few readings: in a process that loses its core between the two clocks, they
// are read apart.
both_clocks read_clocks() {
  both_clocks best{};
  std::uint64_t gap = ~std::uint64_t{0};
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t before = cpu_ticks();
    const auto time = clock::now();
    const std::uint64_t after = cpu_ticks();
    if (after - before >= gap) continue;
    gap = after - before;
    best = {time, before + gap / 2};
  }
  return best;
}

}  // namespace

std::uint64_t ticks_per_ms() {
  static const std::uint64_t rate = [] {
    const both_clocks start = read_clocks();
    while (clock::now() - start.time < MEASURED) cpu_relax();
    const both_clocks end = read_clocks();
    const auto ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(end.time - start.time).count();
    return (end.ticks - start.ticks) * 1'000'000 / static_cast<std::uint64_t>(ns);
  }();
  return rate;
}

}  // namespace lci::base
