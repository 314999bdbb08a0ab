#include "lci/proto/gpu/shared_gpu.hpp"

#include <gtest/gtest.h>

namespace lci::proto::gpu {
namespace {

using ways = shared_gpu_ways;

// Messages one after the other, each as long as its way takes. How many went through host memory.
struct ping_pong {
  std::uint64_t by_gpu_us = 150, by_host_us = 15;
  std::uint64_t now = 1'000'000;

  std::uint32_t send(ways& all, std::uint32_t count, std::size_t size = 64, int rank = 1,
                     bool is_get = false) {
    std::uint32_t through_host = 0;
    all.enter(rank);
    for (std::uint32_t i = 0; i < count; ++i) {
      const ways::way went = all.pick(rank, size, is_get);
      const std::uint64_t began = now;
      now += 1000 * (went == ways::BY_HOST ? by_host_us : by_gpu_us);
      all.note(rank, size, is_get, went, began, now);
      through_host += went == ways::BY_HOST ? 1 : 0;
    }
    return through_host;
  }
};

TEST(shared_gpu, pick__by_the_gpu_as_long_as_that_is_not_slow) {
  ways all;
  ping_pong quick;
  quick.by_gpu_us = 20;
  EXPECT_EQ(quick.send(all, 10000), 0u);
  // Large ones may take longer.
  quick.by_gpu_us = 400;
  EXPECT_EQ(quick.send(all, 1000, 64u << 20), 0u);
}

TEST(shared_gpu, pick__through_the_host_once_the_gpu_is_slow_and_that_is_faster) {
  ways all;
  ping_pong one;
  EXPECT_EQ(one.send(all, ways::STRETCH), 0u);
  EXPECT_EQ(one.send(all, 100), 100u) << "the trial, and then because it was won";
  // What the trials of the slower way cost: less than a tenth of the time, and ever less.
  const std::uint64_t start = one.now;
  const std::uint32_t count = 20000;
  const std::uint32_t by_gpu = count - one.send(all, count);
  EXPECT_GT(by_gpu, 0u) << "it is tried now and then";
  EXPECT_LT(one.now - start, std::uint64_t{count} * one.by_host_us * 1000 * 11 / 10);
}

TEST(shared_gpu, pick__stays_with_the_gpu_where_the_host_is_slower_still) {
  ways all;
  ping_pong one;
  one.by_host_us = 500;
  const std::uint32_t count = 20000;
  const std::uint32_t through_host = one.send(all, count);
  EXPECT_GE(through_host, ways::STRETCH);
  EXPECT_LE(through_host, 10 * ways::STRETCH);
}

TEST(shared_gpu, pick__changes_back_when_the_other_process_has_stopped) {
  ways all;
  ping_pong one;
  one.send(all, 1000);
  one.by_gpu_us = 8;
  one.send(all, 2 * ways::LONGEST);
  EXPECT_EQ(all.pick(1, 64, false), ways::BY_GPU);
  EXPECT_LT(one.send(all, 1000), 50u);
}

TEST(shared_gpu, pick__tries_the_other_way_at_once_when_its_own_becomes_slow) {
  ways all;
  ping_pong one;
  one.send(all, 20000);
  ASSERT_EQ(all.pick(1, 64, false), ways::BY_HOST);
  // The program streams now: the GPU copies for one process alone, and the host gets in its way.
  one.by_host_us = 220;
  one.by_gpu_us = 18;
  EXPECT_LT(one.send(all, 100), 20u);
  EXPECT_EQ(all.pick(1, 64, false), ways::BY_GPU);
}

TEST(shared_gpu, pick__each_peer_class_and_direction_learns_for_itself) {
  ways all;
  ping_pong one;
  one.send(all, 100);
  EXPECT_EQ(all.pick(1, 64, false), ways::BY_HOST);
  EXPECT_EQ(all.pick(1, 4096, false), ways::BY_GPU);
  EXPECT_EQ(all.pick(1, 64, true), ways::BY_GPU);
  EXPECT_EQ(all.pick(2, 64, false), ways::BY_GPU);
  one.send(all, 100, 64, 1, true);
  EXPECT_EQ(all.pick(1, 64, true), ways::BY_HOST);
}

// Many under way at once: each has taken long, but one ends every 10 us.
TEST(shared_gpu, note__of_a_stream_the_time_between_two_ends_counts) {
  ways all;
  all.enter(1);
  std::uint32_t through_host = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const ways::way went = all.pick(1, 4096, false);
    through_host += went == ways::BY_HOST ? 1 : 0;
    all.note(1, 4096, false, went, i * 10'000, 400'000 + i * 10'000);
  }
  EXPECT_EQ(through_host, 0u);
}

TEST(shared_gpu, note__of_ranks_that_never_entered_changes_nothing) {
  ways all;
  for (std::uint64_t i = 0; i < 100; ++i)
    all.note(7, 64, false, ways::BY_GPU, i * 1'000'000'000, (i + 1) * 1'000'000'000);
  EXPECT_EQ(all.pick(7, 64, false), ways::BY_GPU);
}

// A post that is refused picks again and again.
TEST(shared_gpu, pick__alone_changes_nothing) {
  ways all;
  ping_pong one;
  one.send(all, ways::STRETCH);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(all.pick(1, 64, false), ways::BY_HOST) << "the trial";
  EXPECT_EQ(one.send(all, 100), 100u);
}

// The time stamp of a host that has run for a year: ticks times 1000 would not fit.
TEST(shared_gpu, ns_of__any_time_stamp) {
  constexpr std::uint64_t PER_MS = 3'000'000, YEAR_MS = 365ull * 24 * 3600 * 1000;
  EXPECT_EQ(ways::ns_of(YEAR_MS * PER_MS, PER_MS), YEAR_MS * 1'000'000);
  EXPECT_EQ(ways::ns_of(YEAR_MS * PER_MS + 3000, PER_MS), YEAR_MS * 1'000'000 + 1000);
  EXPECT_EQ(ways::ns_of(3, PER_MS), 1u);
}

}  // namespace
}  // namespace lci::proto::gpu
