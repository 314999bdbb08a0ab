#include "lci/gpu/wait.hpp"

#include <gtest/gtest.h>

#include "tests/unit/gpu/job.hpp"

namespace lci::gpu {
namespace {

class wait_test : public testing::Test {
 protected:
  test::gpu_job job;
  endpoint_t ep = job.endpoint(0);
  std::uint64_t word = 5;
};

TEST_F(wait_test, test__each_comparison_of_each_width) {
  const auto is = [&](auto* at, comparison how, auto value) {
    return gpu::test(ep, at, how, value) == status::ok;
  };
  EXPECT_TRUE(is(&word, comparison::equal, 5));
  EXPECT_FALSE(is(&word, comparison::equal, 6));
  EXPECT_TRUE(is(&word, comparison::not_equal, 6));
  EXPECT_TRUE(is(&word, comparison::greater, 4));
  EXPECT_FALSE(is(&word, comparison::greater, 5));
  EXPECT_TRUE(is(&word, comparison::greater_equal, 5));
  EXPECT_TRUE(is(&word, comparison::less, 6));
  EXPECT_FALSE(is(&word, comparison::less, 5));
  EXPECT_TRUE(is(&word, comparison::less_equal, 5));
  std::int32_t four = -1;
  EXPECT_TRUE(is(&four, comparison::less, 0));
  EXPECT_FALSE(is(&four, comparison::greater, 0));
  EXPECT_EQ(gpu::test(ep, &word, comparison::equal, 6), status::nothing);
  EXPECT_EQ(gpu::test(endpoint_t{}, &word, comparison::equal, 5), status::bad_endpoint);
}

TEST_F(wait_test, wait_until__what_holds_already) {
  job[0].any_ended = 1;
  job[0].abort = 1;
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 5), status::ok);
  EXPECT_EQ(wait_until<warp>(ep, &word, comparison::equal, 5), status::ok);
  EXPECT_EQ(wait_until<block>(ep, &word, comparison::equal, 5, 1), status::ok);
}

TEST_F(wait_test, wait_until__ends) {
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 5, 2), status::bad_rank);
  endpoint_t freed = ep;
  freed.generation = 8;
  EXPECT_EQ(wait_until(freed, &word, comparison::equal, 6), status::bad_endpoint);
  job[0].any_ended = 1;
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 6), status::peer_lost);
  job[0].record.waits.limit_ns = 1;
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 6, 1), status::timed_out);  // another ended
  job[0].record.waits.limit_ns = 0;
  job[0].ended[1] = 1;
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 6, 1), status::peer_lost);
  job[0].abort = 1;
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 6, 1), status::aborted);
}

// Each end, while the thread waits.
TEST_F(wait_test, wait_until__ends_while_it_waits) {
  std::uint32_t* const ends[] = {&job[0].any_ended, &job[0].abort};
  for (std::uint32_t* const end : ends) {
    status said = status::ok;
    std::thread waits([&] { said = wait_until(ep, &word, comparison::equal, 6); });
    wqe::word_at<std::uint32_t>(end).store(1, std::memory_order_relaxed);
    waits.join();
    EXPECT_EQ(said, end == &job[0].abort ? status::aborted : status::peer_lost);
    *end = 0;
  }
  status said = status::ok;
  std::thread waits([&] { said = wait_until(ep, &word, comparison::equal, 6); });
  wqe::word_at<std::uint64_t>(&job[0].record.generation).store(8, std::memory_order_relaxed);
  waits.join();
  EXPECT_EQ(said, status::bad_endpoint);
}

// The answer to a request that failed does not come.
TEST_F(wait_test, wait_until__ends_with_a_request_that_failed) {
  job.start();
  place_t wrong = job.at(1, 0);
  wrong.key.key ^= 0x100000;
  ASSERT_EQ(put_value(ep, 1, wrong, 7), status::ok);
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 6, 1), status::failed);
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 6), status::failed);
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 5, 1), status::ok);
  job[0].record.waits.limit_ns = 1;
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 6, 0), status::timed_out);  // not that queue
}

// As long as the word moves, the limit does not count: here it would pass between two changes
// only.
TEST_F(wait_test, wait_until__the_limit_is_counted_from_the_last_change) {
  patience wait(ep, nullptr, ANY_RANK);
  job[0].record.waits.limit_ns = 1;
  patience short_wait(ep, nullptr, 1);
  for (std::uint64_t i = 1; i < 10 * patience::LOOK_EVERY; ++i) {
    short_wait.saw(i);
    EXPECT_EQ(short_wait(), status::ok);
    EXPECT_EQ(wait(), status::ok);
  }
  status said = status::ok;
  while (said == status::ok) said = short_wait();
  EXPECT_EQ(said, status::timed_out);
}

}  // namespace
}  // namespace lci::gpu
