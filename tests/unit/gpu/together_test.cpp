#include "lci/gpu/together.hpp"

#include <gtest/gtest.h>

#include "tests/support/device_code/storm_world.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/unit/gpu/job.hpp"
#include "tests/unit/gpu/warp.hpp"

namespace lci::gpu::detail {
namespace {

using test::gpu_job;
using test::in_warp;
using test::job_options;
using test::warp_of_threads;

TEST(lanes, of_a_mask) {
  EXPECT_EQ(count_of(0x80000101u), 3u);
  EXPECT_EQ(lowest_of(0x80000100u), 8u);
  EXPECT_EQ(highest_of(0x80000100u), 31u);
}

// The lanes of some warps, each of which posts its numbered messages to a rank of its own choice.
class together : public testing::Test {
 protected:
  void run(std::uint32_t blocks, unsigned warps, unsigned lanes, int targets, std::uint32_t each) {
    job_options options;
    options.blocks = blocks;
    options.ranks = targets;
    gpu_job job(options);
    test::storm_count count(warps * lanes);
    test::storm_world world(count);
    std::vector<std::unique_ptr<device::card_queue>> cards;
    for (int to = 0; to < targets; ++to) {
      const wqe::send_queue& q = job[0].queues[static_cast<std::size_t>(to)]->queue;
      cards.push_back(std::make_unique<device::card_queue>(
          device::card_queue_options{q.ring, q.cq, q.bell, q.qpn}, job.keys, world));
    }
    std::vector<warp_of_threads> all(warps);
    std::atomic<unsigned> ended{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < warps * lanes; ++i) {
      threads.emplace_back([&, i] {
        in_warp::warp = &all[i / lanes];
        in_warp::lane = i % lanes;
        for (std::uint32_t n = 0; n < each; ++n)
          EXPECT_EQ(post_one(job, (i + n) % static_cast<unsigned>(targets), i, n), status::ok);
        ended.fetch_add(1, std::memory_order_relaxed);
      });
    }
    while (ended.load(std::memory_order_relaxed) != warps * lanes) progress(cards);
    for (std::thread& t : threads) t.join();
    // A lane may have left the ringing to one that came after it; none is forgotten.
    progress(cards);
    EXPECT_EQ(count.received, std::uint64_t{warps} * lanes * each);
    EXPECT_EQ(count.damaged, 0u);
    if (targets == 1) {
      EXPECT_EQ(count.out_of_order, 0u);
      EXPECT_EQ(count.next, std::vector<std::uint32_t>(warps * lanes, each));
    }
    EXPECT_TRUE(job.is_whole());
  }

 private:
  static void progress(const std::vector<std::unique_ptr<device::card_queue>>& cards) {
    std::size_t n = 0;
    for (const auto& c : cards) n += c->progress_st();
    if (n == 0) std::this_thread::yield();
  }
  static status post_one(gpu_job& job, unsigned to, std::uint32_t thread, std::uint32_t number) {
    std::uint32_t words[test::STORM_LONG / 4];
    for (std::uint32_t i = 0; i < test::STORM_LONG / 4; ++i)
      words[i] = test::storm_word(thread, number, i);
    const key_t own = job.key(0);
    const std::uint32_t size = test::storm_size(thread, number);
    const wqe::sge piece{own.base, size, own.key};
    request_run run;
    wqe::send_request& r = run.requests[run.count++];
    r.op = wqe::opcode::rdma_write;
    r.signaled = false;
    r.raddr = test::storm_address(thread, number);
    if (size == test::STORM_LONG) {
      r.entries = &piece;
      r.entry_count = 1;
    } else {
      r.inline_data = words;
      r.inline_length = size;
    }
    const wqe::send_queue& q = job[0].queues[to]->queue;
    std::uint64_t end = 0;
    const status s = check_run(q, run);
    return s == status::ok ? post_together<in_warp>(q, run, &end) : s;
  }
};

constexpr std::uint32_t EACH = test::IS_SANITIZED ? 20 : 100;

TEST_F(together, post__into_a_ring_that_takes_all) { run(1024, 1, 8, 1, EACH); }
// A group does not fit and goes in several turns.
TEST_F(together, post__into_a_ring_of_sixteen_blocks) { run(16, 2, 16, 1, EACH); }
TEST_F(together, post__into_a_ring_of_which_half_are_unsignaled) { run(64, 2, 8, 1, EACH); }
// Two warps whose lanes are at several full queues at once.
TEST_F(together, post__to_several_ranks_crosswise) { run(16, 2, 8, 3, EACH); }

TEST_F(together, post__all_lanes_are_told_how_the_wait_ended) {
  job_options options;
  options.blocks = 16;
  gpu_job job(options);
  wqe::send_queue q = job[0].queues[1]->queue;
  q.waits.limit_ns = 1;
  warp_of_threads warp;
  std::vector<std::thread> threads;
  std::atomic<int> ended{0}, posted{0};
  for (unsigned i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      in_warp::warp = &warp;
      in_warp::lane = i;
      for (;;) {
        request_run run;
        run.count = 1;
        run.requests[0].qpn = q.qpn;
        std::uint64_t end = 0;
        if (post_together<in_warp>(q, run, &end) != status::ok) break;
        posted.fetch_add(1, std::memory_order_relaxed);
      }
      ended.fetch_add(1, std::memory_order_relaxed);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(ended.load(std::memory_order_relaxed), 8);
  EXPECT_LE(posted.load(std::memory_order_relaxed), 16);
  EXPECT_EQ(wqe::ended_by(q), status::timed_out);
}

}  // namespace
}  // namespace lci::gpu::detail
