#include "lci/base/platform.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace lci::base {
namespace {

// The clocks read as closely together as in the best of many tries.
struct pair_of_clocks {
  std::chrono::steady_clock::time_point time;
  std::uint64_t ticks;
};
pair_of_clocks read_closely() {
  pair_of_clocks best{};
  std::uint64_t gap = ~std::uint64_t{0};
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t before = cpu_ticks();
    const auto time = std::chrono::steady_clock::now();
    const std::uint64_t after = cpu_ticks();
    if (after - before < gap) {
      gap = after - before;
      best = {time, before};
    }
  }
  return best;
}

TEST(platform_test, ticks_per_ms__is_what_the_clocks_say_over_a_longer_time) {
  const auto start = read_closely();
  while (std::chrono::steady_clock::now() - start.time < std::chrono::milliseconds(50)) cpu_relax();
  const auto end = read_closely();
  const double ms = std::chrono::duration<double, std::milli>(end.time - start.time).count();
  const double rate = static_cast<double>(end.ticks - start.ticks) / ms;
  EXPECT_NEAR(static_cast<double>(ticks_per_ms()) / rate, 1.0, 0.02);
}

}  // namespace
}  // namespace lci::base
