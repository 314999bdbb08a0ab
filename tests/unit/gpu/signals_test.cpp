#include "lci/gpu/signals.hpp"

#include <gtest/gtest.h>

#include "tests/unit/gpu/job.hpp"

namespace lci::gpu {
namespace {

using test::gpu_job;

struct looked {
  status said;
  found_place word;
};
looked look(gpu_job& job, const place_t& at, signal_op op) {
  const endpoint_t ep = job.endpoint(0);
  const record_words record = words_of(ep);
  EXPECT_EQ(check_rank(ep, record, 1), status::ok);
  looked out;
  out.said = detail::find_signal(ep, record, 1, {at, 1, op, true}, &out.word);
  return out;
}

TEST(signals, find_signal__where_the_word_is) {
  gpu_job job;
  const auto there = reinterpret_cast<std::uintptr_t>(job.bytes(1, 64));
  EXPECT_EQ(look(job, job.at(1, 64), signal_op::set).word.mapped, 0u);
  EXPECT_EQ(look(job, job.at(1, 64), signal_op::set).word.address, there);
  EXPECT_EQ(look(job, job.at(1, 64, true), signal_op::add).word.mapped, there);
  // What a mapping has no atomics for is stored directly and added by a request.
  place_t at = job.at(1, 64, true);
  at.key.no_atomics = 1;
  EXPECT_EQ(look(job, at, signal_op::set).word.mapped, there);
  EXPECT_EQ(look(job, at, signal_op::add).word.mapped, 0u);
}

TEST(signals, find_signal__refuses_what_is_no_word_of_the_key) {
  gpu_job job;
  for (const bool mapped : {false, true}) {
    EXPECT_EQ(look(job, job.at(1, 60, mapped), signal_op::set).said, status::misaligned_atomic);
    EXPECT_EQ(look(job, job.at(1, 4092, mapped), signal_op::set).said, status::out_of_range);
    EXPECT_EQ(look(job, job.at(0, 64, mapped), signal_op::set).said, status::bad_rank);
  }
  // A request that adds wants a place for the old value.
  job[0].record.scratch.key = 0;
  EXPECT_EQ(look(job, job.at(1, 64), signal_op::add).said, status::bad_key);
  EXPECT_EQ(look(job, job.at(1, 64), signal_op::set).said, status::ok);
  EXPECT_EQ(look(job, job.at(1, 64, true), signal_op::add).said, status::ok);
}

TEST(signals, signal__direct_and_by_request) {
  gpu_job job;
  const endpoint_t ep = job.endpoint(0);
  std::memset(job.bytes(1), 0, 4096);
  for (const bool mapped : {true, false}) {
    ASSERT_EQ(signal(ep, 1, job.at(1, 64, mapped), 5), status::ok);
    ASSERT_EQ(signal(ep, 1, job.at(1, 64, mapped), 2, signal_op::add), status::ok);
    EXPECT_EQ(job[0].queues[1]->state.reserved, mapped ? 0u : 2u);
    job.progress();
    EXPECT_EQ(*job.word(1, 64), 7u) << mapped;
    *job.word(1, 64) = 0;
  }
  EXPECT_EQ(signal(ep, 1, job.at(1, 60, true), 5), status::misaligned_atomic);
  EXPECT_EQ(signal(ep, 2, job.at(1, 64, true), 5), status::bad_rank);
}

}  // namespace
}  // namespace lci::gpu
