// The lines that say which way GPU memory goes.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/proto/gpu_world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
using lci::mem::mem_kind;

namespace {

// What `run` writes to the log at that level.
template <class F>
std::string logged(lci::base::log::level level, F&& run) {
  lci::base::log::context& log = lci::base::log::global();
  const int before = log.threshold();
  log.set_threshold(static_cast<int>(level));
  testing::internal::CaptureStderr();
  run();
  log.set_threshold(before);
  return testing::internal::GetCapturedStderr();
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++found;
  return found;
}

void exchange_some(const gpu_options& options) {
  gpu_world w(options);
  for (int i = 0; i < 3; ++i)
    for (const verb what : {verb::send, verb::put, verb::get})
      for (const mem_kind far : {mem_kind::device, mem_kind::host}) {
        exchange one(w, what, mem_kind::device, far, 20'000);
        one.start();
        EXPECT_TRUE(w.step_until([&] { return one.is_over(); }));
        w.step(20);
      }
}

}  // namespace

TEST(path_log, each_way_and_reason__once_for_each_rank) {
  gpu_options options;
  options.sim.maps_arenas = true;
  const std::string text = logged(lci::base::log::level::info, [&] { exchange_some(options); });
  EXPECT_EQ(count(text, "rank 1: copied directly"), 1u) << text;
  EXPECT_EQ(count(text, "rank 1: through host memory, only GPU memory at both ends"), 1u) << text;
  options.gpu.refuses_share = true;
  const std::string other = logged(lci::base::log::level::info, [&] { exchange_some(options); });
  EXPECT_EQ(count(other, ": copied directly"), 0u) << other;
  EXPECT_GE(count(other, "through host memory, "), 1u) << other;
}

TEST(path_log, staged_by_wish__says_so) {
  gpu_options options;
  options.sim.maps_arenas = true;
  options.way = lci::attr_gpu_path_t::staged;
  const std::string text = logged(lci::base::log::level::info, [&] { exchange_some(options); });
  EXPECT_EQ(count(text, "rank 1: through host memory, as gpu_path says"), 1u) << text;
}

TEST(path_log, below_level_info__are_not_said) {
  gpu_options options;
  options.sim.maps_arenas = true;
  const std::string text = logged(lci::base::log::level::warn, [&] { exchange_some(options); });
  EXPECT_EQ(count(text, "GPU memory and rank"), 0u) << text;
}

TEST(path_log, sums__are_said_at_the_end) {
  gpu_options options;
  options.sim.maps_arenas = true;
  const std::string text = logged(lci::base::log::level::info, [&] { exchange_some(options); });
  // Two ranks; the three sends, puts and gets to GPU memory are decided on by one of them.
  EXPECT_GE(count(text, "GPU memory: 9 times copied directly, "), 1u) << text;
}
