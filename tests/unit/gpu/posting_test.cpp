#include "lci/gpu/posting.hpp"

#include <gtest/gtest.h>

#include "tests/support/device_code/storm_world.hpp"
#include "tests/unit/gpu/job.hpp"

namespace lci::gpu {
namespace {

using test::gpu_job;
using test::job_options;

TEST(most_at_once, what_must_signal_leaves_room_for) {
  EXPECT_EQ(most_at_once({nullptr, 16}), 16u);
  EXPECT_EQ(most_at_once({nullptr, 32}), 16u);
  EXPECT_EQ(most_at_once({nullptr, 1024}), 512u);
}

// Data and signal are one reservation, one publication and one ring.
TEST(post_run, two_requests_at_once) {
  gpu_job job;
  const endpoint_t ep = job.endpoint(0);
  ASSERT_EQ(put_signal(ep, 1, job.at(1, 0), job.here(0, 0), 220, job.at(1, 512), 9), status::ok);
  const wqe::send_queue_state& s = job[0].queues[1]->state;
  EXPECT_EQ(s.reserved, 5u);
  EXPECT_EQ(s.published, 5u << wqe::PUBLISHED_SHIFT | 1);
  EXPECT_EQ(s.rung, 5u);
  EXPECT_EQ(job.progress(), 2u);
  EXPECT_EQ(*job.word(1, 512), 9u);
}

// By it a card in software tells them from values, which have no order.
TEST(post_run, signals_have_a_fence_and_nothing_else_has) {
  gpu_job job;
  const endpoint_t ep = job.endpoint(0);
  const place_t to = job.at(1, 0), word = job.at(1, 512), from = job.here(0, 0);
  ASSERT_EQ(put_value(ep, 1, to, std::uint64_t{1}), status::ok);
  ASSERT_EQ(put(ep, 1, to, from, 8), status::ok);
  ASSERT_EQ(put_signal(ep, 1, to, from, 8, word, 9), status::ok);
  ASSERT_EQ(gpu::signal(ep, 1, word, 10), status::ok);
  ASSERT_EQ(put_signal(ep, 1, to, from, 8, word, 1, signal_op::add), status::ok);
  ASSERT_EQ(add(ep, 1, word, std::uint64_t{1}), status::ok);
  const bool has_fence[] = {false, false, false, true, true, false, true, false};
  const auto& q = *job[0].queues[1];
  ASSERT_EQ(q.state.reserved, 8u) << "a block each";
  for (std::uint64_t i = 0; i < 8; ++i) {
    const std::uint32_t flags = wqe::be32(octoword_at(q.queue.ring, i, 0)->word[2]);
    const auto wanted = has_fence[i] ? wqe::fence_mode::small : wqe::fence_mode::none;
    EXPECT_EQ(flags & wqe::FENCE_BITS, static_cast<std::uint32_t>(wanted)) << i;
  }
  EXPECT_EQ(job.progress(), 8u);
  EXPECT_EQ(*job.word(1, 512), 12u);
}

TEST(post_run, a_ring_that_is_full_ends_at_the_limit) {
  job_options options;
  options.blocks = 16;
  gpu_job job(options);
  job[0].peers[1].queue.waits.limit_ns = 1;
  const endpoint_t ep = job.endpoint(0);
  for (int i = 0; i < 16; ++i) ASSERT_EQ(put_value(ep, 1, job.at(1, 0), i), status::ok);
  EXPECT_EQ(put_value(ep, 1, job.at(1, 0), 16), status::timed_out);
  EXPECT_EQ(put_value(ep, 1, job.at(1, 0), 17), status::dead);
  EXPECT_EQ(quiet(ep, 1), status::timed_out);
  // What was posted stays, and the card does it yet.
  EXPECT_EQ(job.progress(), 16u);
  int value = 0;
  std::memcpy(&value, job.bytes(1), 4);
  EXPECT_EQ(value, 15);
}

class back_pressure : public testing::TestWithParam<std::uint32_t> {};

// A queue of 16 blocks and eight threads: nothing is lost, doubled, damaged or out of order.
TEST_P(back_pressure, post_run) {
  constexpr std::uint32_t THREADS = 8, BLOCKS = 16;
  const std::uint32_t each = GetParam();
  job_options options;
  options.blocks = BLOCKS;
  gpu_job job(options);
  test::storm_count count(THREADS);
  test::storm_world world(count);
  const wqe::send_queue& q = job[0].queues[1]->queue;
  device::card_queue card({q.ring, q.cq, q.bell, q.qpn}, job.keys, world);
  test::storm_task task;
  task.endpoint = job.endpoint(0);
  task.to = {0, UNKNOWN_LENGTH, 0, 0x100, 1};
  task.from = job.key(0);
  task.each = each;
  std::vector<status> said(THREADS, status::no_gpu);
  std::atomic<std::uint32_t> ended{0};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < THREADS; ++t) {
    threads.emplace_back([&, t] {
      said[t] = test::storm(task, t);
      ended.fetch_add(1, std::memory_order_relaxed);
    });
  }
  while (ended.load(std::memory_order_relaxed) != THREADS)
    if (card.progress_st() == 0) std::this_thread::yield();
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(said, std::vector<status>(THREADS, status::ok));
  EXPECT_EQ(count.received, std::uint64_t{THREADS} * each);
  EXPECT_EQ(count.out_of_order + count.damaged, 0u);
  EXPECT_EQ(count.next, std::vector<std::uint32_t>(THREADS, each));
  EXPECT_TRUE(job.is_whole());
}

// Messages of a thread. Each turn of the queue is a few yields, and beside other busy processes a
// yield costs milliseconds (Linux 6.18: 1.3 ms a message beside four of them on two cores).
INSTANTIATE_TEST_SUITE_P(sample, back_pressure, testing::Values(1000));
INSTANTIATE_TEST_SUITE_P(every_message, back_pressure, testing::Values(10000));

}  // namespace
}  // namespace lci::gpu
