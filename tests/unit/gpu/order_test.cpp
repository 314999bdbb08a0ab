#include "lci/gpu/order.hpp"

#include <gtest/gtest.h>

#include "tests/unit/gpu/job.hpp"

namespace lci::gpu {
namespace {

using test::gpu_job;
using test::job_options;

// The test drives the cards itself.
class order : public testing::Test {
 protected:
  wqe::send_queue_state& state(int to) {
    return job[0].queues[static_cast<std::size_t>(to)]->state;
  }

  gpu_job job;
  endpoint_t ep = job.endpoint(0);
};

TEST_F(order, quiet__costs_nothing_where_nothing_is_under_way) {
  EXPECT_EQ(quiet(ep), status::ok);
  EXPECT_EQ(fence(ep), status::ok);
  EXPECT_EQ(quiet(ep, 1), status::ok);
  EXPECT_EQ(state(0).reserved + state(1).reserved, 0u);
  job.start();
  ASSERT_EQ(put_value(ep, 1, job.at(1, 0), 7), status::ok);
  EXPECT_EQ(quiet(ep, 1), status::ok);
  const std::uint64_t after = state(1).reserved;
  EXPECT_EQ(after, 2u);  // the put, and what asked for its completion
  EXPECT_EQ(quiet(ep), status::ok);
  EXPECT_EQ(quiet(ep, 1), status::ok);
  EXPECT_EQ(state(1).reserved, after);
  EXPECT_EQ(state(0).reserved, 0u);
}

// A card that completes a send says only that it was taken.
TEST_F(order, quiet__does_not_rely_on_the_completion_of_a_send) {
  job_options options;
  options.blocks = 16;  // all requests ask for a completion
  gpu_job small(options);
  const endpoint_t mine = small.endpoint(0);
  wqe::send_queue_state& s = small[0].queues[1]->state;
  ASSERT_EQ(send_value(mine, 1, 1, 2), status::ok);
  small.progress();
  EXPECT_TRUE(wqe::drain(small[0].queues[1]->queue));
  EXPECT_EQ(s.done, s.reserved);
  EXPECT_LT(s.carried_out, s.done);
  small.start();
  const std::uint64_t before = s.reserved;
  ASSERT_EQ(quiet(mine, 1), status::ok);
  EXPECT_GT(s.reserved, before);
}

TEST_F(order, quiet__of_several_ranks_says_the_lowest_reason) {
  job.start();
  place_t wrong = job.at(1, 0);
  wrong.key.key ^= 0x100000;
  ASSERT_EQ(put_value(ep, 1, wrong, 7), status::ok);
  EXPECT_EQ(quiet(ep), status::failed);
  EXPECT_EQ(quiet(ep, 0), status::ok);
  EXPECT_EQ(fence(ep, 1), status::failed);
  EXPECT_EQ(syndrome_of(ep, 1), wqe::syndrome::remote_access);
  EXPECT_EQ(syndrome_of(ep, 9), wqe::syndrome::none);
}

// Requests that end with "retry exceeded" are those to a peer that is lost.
TEST_F(order, quiet__a_lost_peer) {
  state(1).error.error = wqe::syndrome::retry_exceeded;
  ASSERT_EQ(wqe::end(job[0].queues[1]->queue, status::failed), status::failed);
  EXPECT_EQ(quiet(ep, 1), status::peer_lost);
  EXPECT_EQ(quiet(ep), status::peer_lost);
  EXPECT_EQ(put_value(ep, 1, job.at(1, 0), 7), status::peer_lost);
  EXPECT_EQ(put_value(ep, 0, job.at(0, 0), 7), status::ok);
}

// No error came before: an abort flushes what is under way, and that may be seen before its flag.
TEST_F(order, quiet__says_aborted_if_the_first_error_is_a_flush) {
  ASSERT_EQ(put_value(ep, 1, job.at(1, 0), 7), status::ok);
  state(1).error.error = wqe::syndrome::flushed;
  wqe::end(job[0].queues[1]->queue, status::failed);
  EXPECT_EQ(quiet(ep, 1), status::aborted);
  EXPECT_EQ(quiet(ep), status::aborted);
  EXPECT_EQ(put_value(ep, 1, job.at(1, 0), 7), status::dead);
}

TEST_F(order, quiet__ends_by_the_abort_flag_and_by_the_limit) {
  ASSERT_EQ(put_value(ep, 1, job.at(1, 0), 7), status::ok);
  wqe::word_at<std::uint32_t>(&job[0].abort).store(1, std::memory_order_relaxed);
  EXPECT_EQ(quiet(ep, 1), status::aborted);
  EXPECT_EQ(quiet(ep, 1), status::aborted);
  EXPECT_EQ(put_value(ep, 1, job.at(1, 0), 7), status::dead);
  job[1].peers[0].queue.waits.limit_ns = 1;
  const endpoint_t other = job.endpoint(1);
  ASSERT_EQ(put_value(other, 0, job.at(0, 0), 7), status::ok);
  EXPECT_EQ(quiet(other, 0), status::timed_out);
}

TEST_F(order, quiet__several_threads_wait_and_each_is_told) {
  job.start();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const auto offset = static_cast<std::uint64_t>(t) * 8;
      for (std::uint64_t i = 1; i <= 200; ++i) {
        EXPECT_EQ(put_value(ep, 1, job.at(1, offset), i), status::ok);
        EXPECT_EQ(quiet(ep, 1), status::ok);
        EXPECT_EQ(wqe::word_at<std::uint64_t>(job.word(1, offset)).load(std::memory_order_acquire),
                  i);
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

// A request before, a store after: the store does not go past it.
TEST_F(order, fence__between_a_request_and_a_direct_store) {
  job.start();
  *job.word(1, 0) = *job.word(1, 8) = 0;
  std::thread reader([&] {
    const endpoint_t there = job.endpoint(1);
    for (std::uint64_t i = 1; i <= 300; ++i) {
      EXPECT_EQ(wait_until(there, job.word(1, 8), comparison::greater_equal, i), status::ok);
      EXPECT_GE(wqe::word_at<std::uint64_t>(job.word(1, 0)).load(std::memory_order_relaxed), i);
    }
  });
  for (std::uint64_t i = 1; i <= 300; ++i) {
    EXPECT_EQ(put_value(ep, 1, job.at(1, 0, false), i), status::ok);
    EXPECT_EQ(fence(ep, 1), status::ok);
    EXPECT_EQ(gpu::signal(ep, 1, job.at(1, 8, true), i), status::ok);
  }
  reader.join();
}

TEST_F(order, names_and_texts) {
  EXPECT_EQ(gpu::rank(ep), 0);
  EXPECT_EQ(gpu::rank(job.endpoint(1)), 1);
  EXPECT_EQ(ranks(ep), 2);
  EXPECT_EQ(ranks(endpoint_t{}), -1);
  EXPECT_STREQ(text_of(status::ok), "success");
}

}  // namespace
}  // namespace lci::gpu
