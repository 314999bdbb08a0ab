#include "lci/gpu/queue.hpp"

#include <gtest/gtest.h>

#include "tests/support/sanitized.hpp"
#include "tests/unit/gpu/job.hpp"

namespace lci::gpu {
namespace {

using test::gpu_job;

class queue_test : public testing::Test {
 protected:
  queue_test() { job.start(); }
  ~queue_test() override {
    job.stop();
    EXPECT_TRUE(job.is_whole());
  }
  gpu_job job;
  endpoint_t from = job.endpoint(0);
  queue_t queue = job.kernel_queue(1);
  unsigned char buffer[64] = {};
  message_t what;
};

TEST_F(queue_test, poll__messages_in_order_and_more_than_it_holds) {
  EXPECT_EQ(poll(queue, buffer, 64, &what), status::nothing);
  for (std::uint64_t i = 0; i < 20; ++i)
    ASSERT_EQ(am_value(from, 1, i, gpu_job::KERNEL_QUEUE, i), status::ok);
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(gpu::wait(queue, buffer, 64, &what), status::ok);
    EXPECT_EQ(what.tag, i);
    EXPECT_EQ(what.size, 8u);
    EXPECT_EQ(what.rank, 0);
    std::uint64_t value = 0;
    std::memcpy(&value, buffer, 8);
    EXPECT_EQ(value, i);
  }
  EXPECT_EQ(poll(queue, buffer, 64), status::nothing);
}

TEST_F(queue_test, poll__a_message_longer_than_the_buffer_stays) {
  std::memset(job.bytes(0), 3, 64);
  ASSERT_EQ(am(from, 1, job.here(0, 0), 33, gpu_job::KERNEL_QUEUE), status::ok);
  EXPECT_EQ(gpu::wait(queue, buffer, 32, &what), status::too_long);
  EXPECT_EQ(what.size, 33u);
  EXPECT_EQ(buffer[0], 0u);
  EXPECT_EQ(poll<block>(queue, buffer, 33, &what), status::ok);
  EXPECT_EQ(buffer[32], 3u);
  EXPECT_EQ(buffer[33], 0u);
}

TEST_F(queue_test, poll__a_message_of_no_bytes) {
  ASSERT_EQ(am(from, 1, place_t{}, 0, gpu_job::KERNEL_QUEUE, 4), status::ok);
  EXPECT_EQ(gpu::wait(queue, nullptr, 0, &what), status::ok);
  EXPECT_EQ(what.tag, 4u);
  EXPECT_EQ(what.size, 0u);
}

TEST_F(queue_test, refusals_and_ends) {
  EXPECT_EQ(poll(queue_t{}, buffer, 64), status::bad_endpoint);
  job[1].any_ended = 1;
  EXPECT_EQ(gpu::wait(queue, buffer, 64), status::peer_lost);
  EXPECT_EQ(poll(queue, buffer, 64), status::nothing);
  job[1].abort = 1;
  EXPECT_EQ(gpu::wait(queue, buffer, 64), status::aborted);
  job[1].record.generation = 8;
  EXPECT_EQ(poll(queue, buffer, 64), status::bad_endpoint);
  EXPECT_EQ(gpu::wait(queue, buffer, 64), status::bad_endpoint);
}

// Others take all messages, so that this one waits for long. The first look rings for a request to
// rank 0, and the bell is the count of those that were taken; the second one finds that the queue
// to rank 1 has ended.
TEST_F(queue_test, wait__the_limit_is_counted_from_when_another_took_one) {
  wqe::send_queue_state& first = job[1].queues[0]->state;
  first.reserved = 1;
  first.published = 1 << wqe::PUBLISHED_SHIFT | 1;
  job[1].peers[0].queue.bell.target = &job[1].taken;
  job[1].queues[1]->state.ended = static_cast<std::uint32_t>(status::aborted);
  job[1].record.waits.limit_ns = 1;
  EXPECT_EQ(gpu::wait(queue, buffer, 64), status::aborted);
  EXPECT_EQ(job[1].taken, 1u);
  // Nobody takes any more.
  job[1].queues[1]->state.ended = 0;
  EXPECT_EQ(gpu::wait(queue, buffer, 64), status::timed_out);
}

TEST_F(queue_test, many_threads__each_message_goes_to_one) {
  constexpr std::uint64_t COUNT = test::IS_SANITIZED ? 500 : 10000;
  std::vector<std::vector<std::uint64_t>> got(4);
  std::atomic<std::uint64_t> taken{0};
  std::vector<std::thread> threads;
  for (auto& mine : got) {
    threads.emplace_back([&] {
      while (taken.load(std::memory_order_relaxed) < COUNT) {
        std::uint64_t value = 0;
        message_t m;
        const status s = poll(queue, &value, 8, &m);
        if (s == status::nothing) {
          std::this_thread::yield();
          continue;
        }
        ASSERT_EQ(s, status::ok);
        mine.push_back(value);
        taken.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (std::uint64_t i = 0; i < COUNT; ++i)
    ASSERT_EQ(am_value(from, 1, i, gpu_job::KERNEL_QUEUE), status::ok);
  for (std::thread& t : threads) t.join();
  std::vector<int> times(COUNT, 0);
  for (const auto& mine : got) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    for (const std::uint64_t value : mine) ++times.at(value);
  }
  EXPECT_EQ(times, std::vector<int>(COUNT, 1));
}

}  // namespace
}  // namespace lci::gpu
