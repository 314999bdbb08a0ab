#include "lci/gpu/remote.hpp"

#include <gtest/gtest.h>

#include "tests/unit/gpu/job.hpp"

namespace lci::gpu {
namespace {

using test::gpu_job;
using test::job_options;

// With memory that is reached directly, and by requests.
class remote : public testing::TestWithParam<bool> {
 protected:
  void make(const job_options& options = {}) {
    end();
    job = std::make_unique<gpu_job>(options);
    job->start();
    ep = job->endpoint(0);
  }
  void end() {
    if (job == nullptr) return;
    job->stop();
    EXPECT_TRUE(job->is_whole());
  }
  ~remote() override { end(); }
  place_t there(std::uint64_t offset) { return job->at(1, offset, GetParam()); }
  place_t here(std::uint64_t offset) { return job->here(0, offset); }
  // What is at rank 1 must not have changed.
  void expect_untouched() {
    ASSERT_EQ(quiet(ep, 1), status::ok);
    for (std::size_t i = 0; i < 4096; ++i) ASSERT_EQ(job->bytes(1)[i], std::byte{0x11});
    EXPECT_EQ((*job)[0].queues[1]->state.reserved, 0u);
  }

  std::unique_ptr<gpu_job> job;
  endpoint_t ep;
};

TEST_P(remote, put__sizes_around_what_travels_in_a_request) {
  make();
  for (const std::uint64_t size : {0, 1, 7, 8, 28, 29, 92, 93, 219, 220, 221, 1000, 2000}) {
    for (const std::uint64_t skew : {0, 1, 3, 4}) {
      std::memset(job->bytes(1), 0x22, 4096);
      for (std::size_t i = 0; i < 4096; ++i)
        job->bytes(0)[i] = static_cast<std::byte>(i * 7 + size);
      ASSERT_EQ(put(ep, 1, there(64 + skew), here(skew * 2), size), status::ok);
      ASSERT_EQ(quiet(ep, 1), status::ok);
      for (std::size_t i = 0; i < 4096; ++i) {
        const bool is_in = i >= 64 + skew && i < 64 + skew + size;
        ASSERT_EQ(job->bytes(1)[i],
                  is_in ? job->bytes(0)[i - 64 - skew + skew * 2] : std::byte{0x22})
            << size << " at " << i;
      }
    }
  }
}

TEST_P(remote, put__in_pieces_of_the_request_limit_and_one_signal) {
  job_options options;
  options.max_message = 300;
  make(options);
  for (std::size_t i = 0; i < 1000; ++i) job->bytes(0)[i] = static_cast<std::byte>(i * 11);
  *job->word(1, 2048) = 0;
  for (std::uint64_t turn = 1; turn <= 3; ++turn) {
    ASSERT_EQ(put_signal(ep, 1, there(0), here(0), 1000, there(2048), 1, signal_op::add),
              status::ok);
    ASSERT_EQ(quiet(ep), status::ok);
    EXPECT_EQ(std::memcmp(job->bytes(0), job->bytes(1), 1000), 0);
    EXPECT_EQ(*job->word(1, 2048), turn);
  }
  ASSERT_EQ(get(ep, 1, here(1500), there(0), 1000), status::ok);
  ASSERT_EQ(quiet(ep), status::ok);
  EXPECT_EQ(std::memcmp(job->bytes(0, 1500), job->bytes(1), 1000), 0);
}

TEST_P(remote, put_value__of_any_size_and_the_value_is_free_at_once) {
  make();
  struct large {
    char bytes[220];
  } value;
  std::memset(value.bytes, 5, sizeof(value));
  ASSERT_EQ(put_value(ep, 1, there(100), value), status::ok);
  std::memset(value.bytes, 6, sizeof(value));
  ASSERT_EQ(put_value(ep, 1, there(400), std::uint64_t{1234}), status::ok);
  ASSERT_EQ(put_value(ep, 1, there(409), std::uint32_t{4321}), status::ok);  // not aligned
  ASSERT_EQ(put_value(ep, 1, there(420), 'x'), status::ok);
  ASSERT_EQ(quiet(ep), status::ok);
  for (int i = 0; i < 220; ++i) ASSERT_EQ(job->bytes(1)[100 + i], std::byte{5});
  EXPECT_EQ(*job->word(1, 400), 1234u);
  std::uint32_t four = 0;
  std::memcpy(&four, job->bytes(1, 409), 4);
  EXPECT_EQ(four, 4321u);
  EXPECT_EQ(job->bytes(1)[420], std::byte{'x'});
  EXPECT_EQ(job->bytes(1)[421], std::byte{0x11});
}

TEST_P(remote, put_signal__data_is_there_when_the_word_is) {
  make();
  for (std::uint64_t turn = 1; turn <= 100; ++turn) {
    const std::uint64_t size = turn * 10;
    std::memset(job->bytes(0), static_cast<int>(turn), size);
    ASSERT_EQ(put_signal(ep, 1, there(0), here(0), size, there(2048), turn), status::ok);
    ASSERT_EQ(wait_until(job->endpoint(1), job->word(1, 2048), comparison::equal, turn),
              status::ok);
    for (std::uint64_t i = 0; i < size; ++i)
      ASSERT_EQ(job->bytes(1)[i], static_cast<std::byte>(turn));
    ASSERT_EQ(quiet(ep, 1), status::ok);
  }
}

// Mapped data and a word that is not: both take the queue, so the order holds.
TEST_P(remote, put_signal__one_way_for_both) {
  make();
  *job->word(1, 2048) = 0;
  std::memset(job->bytes(0), 9, 1000);
  ASSERT_EQ(put_signal(ep, 1, job->at(1, 0, true), here(0), 1000, job->at(1, 2048, false), 1),
            status::ok);
  EXPECT_GT((*job)[0].queues[1]->state.reserved, 1u);
  ASSERT_EQ(wait_until(job->endpoint(1), job->word(1, 2048), comparison::equal, 1), status::ok);
  EXPECT_EQ(job->bytes(1)[999], std::byte{9});
}

TEST_P(remote, signal__set_and_add) {
  make();
  *job->word(1, 8) = 0;
  ASSERT_EQ(gpu::signal(ep, 1, there(8), 40), status::ok);
  ASSERT_EQ(gpu::signal(ep, 1, there(8), 2, signal_op::add), status::ok);
  ASSERT_EQ(put_signal(ep, 1, place_t{}, place_t{}, 0, there(8), 100, signal_op::add), status::ok);
  ASSERT_EQ(quiet(ep, 1), status::ok);
  EXPECT_EQ(*job->word(1, 8), 142u);
}

TEST_P(remote, get__what_is_there) {
  make();
  for (std::size_t i = 0; i < 4096; ++i) job->bytes(1)[i] = static_cast<std::byte>(i * 3);
  for (const std::uint64_t size : {0, 1, 8, 100, 1000}) {
    std::memset(job->bytes(0), 0x33, 4096);
    ASSERT_EQ(get(ep, 1, here(13), there(7), size), status::ok);
    ASSERT_EQ(quiet(ep, 1), status::ok);
    EXPECT_EQ(std::memcmp(job->bytes(0, 13), job->bytes(1, 7), size), 0);
    EXPECT_EQ(job->bytes(0)[12], std::byte{0x33});
    EXPECT_EQ(job->bytes(0)[13 + size], std::byte{0x33});
  }
}

// Own memory that no thread can read: nothing travels in the request.
TEST_P(remote, put__from_memory_that_only_a_card_reads) {
  make();
  std::memset(job->bytes(0), 7, 8);
  ASSERT_EQ(put(ep, 1, there(0), job->at(0, 0, false), 8), status::ok);
  ASSERT_EQ(quiet(ep), status::ok);
  EXPECT_EQ(job->bytes(1)[7], std::byte{7});
  ASSERT_EQ(get(ep, 1, job->at(0, 100, false), there(0), 8), status::ok);
  ASSERT_EQ(quiet(ep), status::ok);
  EXPECT_EQ(job->bytes(0)[107], std::byte{7});
}

TEST_P(remote, refusals__nothing_is_written_or_posted) {
  make();
  const place_t beyond = there(4090), none{};
  place_t of_another = there(0);
  of_another.key.rank = 0;
  place_t wraps = there(0);
  wraps.offset = ~std::uint64_t{0};
  EXPECT_EQ(put(ep, 1, beyond, here(0), 8), status::out_of_range);
  EXPECT_EQ(put(ep, 1, wraps, here(0), 8), status::out_of_range);
  EXPECT_EQ(put(ep, 1, there(0), here(4090), 8), status::out_of_range);
  EXPECT_EQ(put(ep, 1, there(0), here(0), ~std::uint64_t{0}), status::out_of_range);
  EXPECT_EQ(put(ep, 1, of_another, here(0), 8), status::bad_rank);
  EXPECT_EQ(put(ep, 1, there(0), there(0), 8), status::bad_rank);  // a source of somebody else
  EXPECT_EQ(put(ep, 2, there(0), here(0), 8), status::bad_rank);
  EXPECT_EQ(put(ep, -1, there(0), here(0), 8), status::bad_rank);
  EXPECT_EQ(put(ep, 1, none, here(0), 8), status::bad_key);
  EXPECT_EQ(put(ep, 1, there(0), none, 8), status::bad_key);
  EXPECT_EQ(get(ep, 1, here(0), beyond, 8), status::out_of_range);
  EXPECT_EQ(get(ep, 1, none, there(0), 8), status::bad_key);
  EXPECT_EQ(put_value(ep, 1, beyond, std::uint64_t{1}), status::out_of_range);
  EXPECT_EQ(put_value(ep, 7, there(0), std::uint64_t{1}), status::bad_rank);
  EXPECT_EQ(gpu::signal(ep, 1, there(4), 1), status::misaligned_atomic);
  EXPECT_EQ(gpu::signal(ep, 1, beyond, 1), status::out_of_range);
  EXPECT_EQ(put_signal(ep, 1, there(0), here(0), 8, none, 1), status::bad_key);
  EXPECT_EQ(put_signal(ep, 1, there(0), here(0), 8, there(12), 1, signal_op::add),
            status::misaligned_atomic);
  expect_untouched();
}

TEST_P(remote, refusals__an_endpoint_that_is_none) {
  make();
  EXPECT_EQ(put(endpoint_t{}, 1, there(0), here(0), 8), status::bad_endpoint);
  endpoint_t of_gpu = ep;
  of_gpu.generation |= OF_GPU;
  EXPECT_EQ(put(of_gpu, 1, there(0), here(0), 8), status::wrong_gpu);
  endpoint_t freed = ep;
  freed.generation = 6;
  EXPECT_EQ(put(freed, 1, there(0), here(0), 8), status::bad_endpoint);
  EXPECT_EQ(get(freed, 1, here(0), there(0), 8), status::bad_endpoint);
  EXPECT_EQ(gpu::signal(freed, 1, there(0), 8), status::bad_endpoint);
  EXPECT_EQ(quiet(freed), status::bad_endpoint);
  EXPECT_EQ(gpu::rank(freed), -1);
  expect_untouched();
}

// A key that names no such region at the owner: the card finds out, and the queue has ended.
TEST(remote_errors, bad_key_at_the_owner__ends_the_queue) {
  gpu_job job;
  job.start();
  const endpoint_t ep = job.endpoint(0);
  place_t to = job.at(1, 0);
  to.key.key += 1;
  EXPECT_EQ(put(ep, 1, to, job.here(0, 0), 8), status::ok);
  EXPECT_EQ(quiet(ep, 1), status::failed);
  EXPECT_EQ(syndrome_of(ep, 1), wqe::syndrome::remote_access);
  EXPECT_EQ(syndrome_of(ep, 0), wqe::syndrome::none);
  EXPECT_EQ(put(ep, 1, job.at(1, 0), job.here(0, 0), 8), status::dead);
  EXPECT_EQ(quiet(ep), status::failed);
  EXPECT_EQ(quiet(ep, 0), status::ok);
  job.stop();
  EXPECT_EQ(job.bytes(1)[0], std::byte{0x11});
}

INSTANTIATE_TEST_SUITE_P(direct, remote, testing::Values(true));
INSTANTIATE_TEST_SUITE_P(requests, remote, testing::Values(false));

}  // namespace
}  // namespace lci::gpu
