#include "lci/gpu/values.hpp"

#include <gtest/gtest.h>

#include "tests/support/sanitized.hpp"
#include "tests/unit/gpu/job.hpp"

namespace lci::gpu {
namespace {

using test::gpu_job;

class values : public testing::TestWithParam<bool> {
 protected:
  values() {
    job.start();
    for (std::size_t i = 0; i < 4096; ++i) job.bytes(1)[i] = static_cast<std::byte>(i * 7 + 3);
  }
  ~values() override {
    job.stop();
    EXPECT_TRUE(job.is_whole());
  }
  place_t there(std::uint64_t offset) { return job.at(1, offset, GetParam()); }

  template <class T>
  void expect_each_place() {
    for (std::uint64_t offset = 64; offset < 80; ++offset) {
      T value;
      std::memset(&value, 0, sizeof(T));
      EXPECT_EQ(get_value(ep, 1, there(offset), &value), status::ok);
      EXPECT_EQ(std::memcmp(&value, job.bytes(1, offset), sizeof(T)), 0)
          << sizeof(T) << " at " << offset;
    }
  }

  gpu_job job;
  endpoint_t ep = job.endpoint(0);
};

template <std::size_t N>
struct few_bytes {
  unsigned char each[N];
};

TEST_P(values, get_value__of_each_size_at_each_place) {
  expect_each_place<unsigned char>();
  expect_each_place<std::uint16_t>();
  expect_each_place<few_bytes<3>>();
  expect_each_place<float>();
  expect_each_place<few_bytes<5>>();
  expect_each_place<few_bytes<7>>();
  expect_each_place<double>();
  expect_each_place<std::int64_t>();
  EXPECT_EQ(job[0].queues[1]->state.reserved == 0, GetParam());
  for (const std::uint64_t taken : job[0].scratch_taken) EXPECT_EQ(taken, 0u);
}

// Nothing behind the value of the caller is written.
TEST_P(values, get_value__in_every_scope) {
  std::uint32_t value[2] = {1, 1};
  EXPECT_EQ(get_value<warp>(ep, 1, there(64), value), status::ok);
  EXPECT_EQ(std::memcmp(value, job.bytes(1, 64), 4), 0);
  EXPECT_EQ(get_value<block>(ep, 1, there(68), value), status::ok);
  EXPECT_EQ(std::memcmp(value, job.bytes(1, 68), 4), 0);
  EXPECT_EQ(value[1], 1u);
}

TEST_P(values, get_value__refusals) {
  std::uint64_t value = 9;
  EXPECT_EQ(get_value(ep, 1, there(4089), &value), status::out_of_range);
  EXPECT_EQ(get_value(ep, 2, there(0), &value), status::bad_rank);
  EXPECT_EQ(get_value(ep, 0, there(0), &value), status::bad_rank);
  EXPECT_EQ(get_value(ep, 1, place_t{}, &value), status::bad_key);
  EXPECT_EQ(get_value(endpoint_t{}, 1, there(0), &value), status::bad_endpoint);
  EXPECT_EQ(value, 9u);
  EXPECT_EQ(job[0].queues[1]->state.reserved, 0u);
}

// More threads than places for answers: none reads another's.
TEST_P(values, get_value__many_threads) {
  constexpr std::uint64_t THREADS = 8;
  constexpr std::uint64_t EACH = test::IS_SANITIZED ? 50 : 500;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < THREADS; ++t) {
    threads.emplace_back([&, t] {
      std::uint64_t wrong = 0;
      for (std::uint64_t i = 0; i < EACH; ++i) {
        const std::uint64_t offset = 8 * (t * 13 + i % 64);
        std::uint64_t value = 0;
        if (get_value(ep, 1, there(offset), &value) != status::ok || value != *job.word(1, offset))
          ++wrong;
      }
      EXPECT_EQ(wrong, 0u);
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST(values_ends, get_value__request_that_failed) {
  gpu_job job;
  job.start();
  const endpoint_t ep = job.endpoint(0);
  place_t wrong = job.at(1, 0);
  wrong.key.key ^= 0x100000;
  std::uint64_t value = 9;
  EXPECT_EQ(get_value(ep, 1, wrong, &value), status::failed);
  EXPECT_EQ(value, 9u);
  for (const std::uint64_t taken : job[0].scratch_taken) EXPECT_EQ(taken, 0u);
}

// Nobody drives the card, so the answer may still come: its place is nobody else's.
TEST(values_ends, get_value__aborted) {
  gpu_job job;
  job[0].abort = 1;
  std::uint64_t value = 9;
  EXPECT_EQ(get_value(job.endpoint(0), 1, job.at(1, 0), &value), status::aborted);
  EXPECT_EQ(value, 9u);
  EXPECT_GT(job[0].scratch_taken[0], 1u);
}

// A get to rank 1 has failed, which the next look at the queue finds.
void fail_a_get(gpu_job& job) {
  place_t wrong = job.at(1, 0);
  wrong.key.key ^= 0x100000;
  ASSERT_EQ(get(job.endpoint(0), 1, job.here(0, 0), wrong, 8), status::ok);
  ASSERT_EQ(job.progress(), 1u);
}

// Reads are under way beside each other, so the answer may still come when the queue has ended.
TEST(values_ends, get_value__beside_a_request_that_failed) {
  gpu_job job;
  ASSERT_NO_FATAL_FAILURE(fail_a_get(job));
  job[0].peers[1].queue.waits.limit_ns = 1;  // nobody drives the card
  std::uint64_t value = 9;
  EXPECT_EQ(get_value(job.endpoint(0), 1, job.at(1, 0), &value), status::failed);
  EXPECT_EQ(value, 9u);
  EXPECT_GT(job[0].scratch_taken[0], 1u);
}

TEST(values_ends, get_value__is_over_when_it_is_flushed) {
  gpu_job job;
  ASSERT_NO_FATAL_FAILURE(fail_a_get(job));
  job.start();
  std::uint64_t value = 9;
  EXPECT_EQ(get_value(job.endpoint(0), 1, job.at(1, 0), &value), status::failed);
  EXPECT_EQ(value, 9u);
  EXPECT_EQ(job[0].queues[1]->state.done, job[0].queues[1]->state.reserved);
  for (const std::uint64_t taken : job[0].scratch_taken) EXPECT_EQ(taken, 0u);
}

// One place for two ranks. Who waited for rank 1 gave up; the answer comes later, to nobody.
TEST(values_left, get_value__place_is_free_when_its_queue_has_gone_past) {
  test::job_options options;
  options.ranks = 3;
  options.scratch = 1;
  gpu_job job(options);
  const endpoint_t ep = job.endpoint(0);
  *job.word(1, 0) = 11;
  *job.word(2, 0) = 22;
  job[0].peers[1].queue.waits.limit_ns = 1;
  job[0].record.waits.limit_ns = 1;
  std::uint64_t value = 9;
  EXPECT_EQ(get_value(ep, 1, job.at(1, 0), &value), status::timed_out);
  EXPECT_EQ(get_value(ep, 2, job.at(2, 0), &value), status::timed_out);
  EXPECT_EQ(value, 9u);
  EXPECT_EQ(job[0].queues[2]->state.reserved, 0u);
  EXPECT_EQ(job.progress(), 1u);
  job.start();
  EXPECT_EQ(get_value(ep, 2, job.at(2, 0), &value), status::ok);
  EXPECT_EQ(value, 22u);
  EXPECT_EQ(job[0].scratch_taken[0], 0u);
}

// Nothing was posted, so no answer comes.
TEST(values_left, get_value__place_is_free_at_once_if_there_was_no_room) {
  test::job_options options;
  options.blocks = 16;
  gpu_job job(options);
  job[0].peers[1].queue.waits.limit_ns = 1;
  std::uint64_t end = 0, value = 9;
  for (int i = 0; i < 16; ++i)
    ASSERT_EQ(wqe::post(job[0].queues[1]->queue, wqe::send_request(), &end), status::ok);
  EXPECT_EQ(get_value(job.endpoint(0), 1, job.at(1, 0), &value), status::timed_out);
  for (const std::uint64_t taken : job[0].scratch_taken) EXPECT_EQ(taken, 0u);
}

TEST(values_left, is_scratch_over__also_where_the_low_bits_run_over) {
  using detail::is_scratch_over;
  using detail::scratch_left;
  for (const std::uint64_t end : {std::uint64_t{5}, detail::SCRATCH_END_MASK + 1,
                                  detail::SCRATCH_END_MASK + 3, 7 * detail::SCRATCH_END_MASK}) {
    const std::uint64_t left = scratch_left(0xffffff, end);
    EXPECT_FALSE(is_scratch_over(left, end - 1));
    EXPECT_FALSE(is_scratch_over(left, end >= 32768 ? end - 32768 : 0));
    EXPECT_TRUE(is_scratch_over(left, end));
    EXPECT_TRUE(is_scratch_over(left, end + 1000000));
  }
}

INSTANTIATE_TEST_SUITE_P(direct, values, testing::Values(true));
INSTANTIATE_TEST_SUITE_P(requests, values, testing::Values(false));

}  // namespace
}  // namespace lci::gpu
