#include "lci/gpu/remote.hpp"

#include <gtest/gtest.h>

#include "tests/unit/gpu/job.hpp"

namespace lci::gpu {
namespace {

using test::gpu_job;

// With memory that is reached directly, and by requests.
class remote : public testing::TestWithParam<bool> {
 protected:
  remote() { job.start(); }
  ~remote() override {
    job.stop();
    EXPECT_TRUE(job.is_whole());
  }
  place_t there(std::uint64_t offset) { return job.at(1, offset, GetParam()); }
  place_t here(std::uint64_t offset) { return job.here(0, offset); }

  gpu_job job;
  endpoint_t ep = job.endpoint(0);
};

TEST_P(remote, put_signal__data_is_there_when_the_word_is) {
  for (std::uint64_t turn = 1; turn <= 100; ++turn) {
    const std::uint64_t size = turn * 10;
    std::memset(job.bytes(0), static_cast<int>(turn), size);
    ASSERT_EQ(put_signal(ep, 1, there(0), here(0), size, there(2048), turn), status::ok);
    ASSERT_EQ(wait_until(job.endpoint(1), job.word(1, 2048), compare::equal, turn), status::ok);
    for (std::uint64_t i = 0; i < size; ++i)
      ASSERT_EQ(job.bytes(1)[i], static_cast<std::byte>(turn));
    ASSERT_EQ(quiet(ep, 1), status::ok);
  }
}

INSTANTIATE_TEST_SUITE_P(direct, remote, testing::Values(true));
INSTANTIATE_TEST_SUITE_P(requests, remote, testing::Values(false));

}  // namespace
}  // namespace lci::gpu
