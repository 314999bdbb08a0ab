// What fails beneath jobs: each is told once all the same.
#include <deque>

#include "tests/unit/cuda/accelerator_fixture.hpp"

namespace lci::cuda {
namespace {

using mem::copy_way;

TEST_F(accelerator_test, copy__for_a_gpu_that_is_not_there_is_told_an_error) {
  for (const int device : {-1, 2, 1000}) {
    told_job job;
    copy(job, copy_way::to_device, nullptr, nullptr, 8, device);
    EXPECT_EQ(job.calls, 0);
    EXPECT_EQ(acc_->poll(), 1u);
    EXPECT_TRUE(has(job.error, "there is no GPU")) << job.error;
  }
}

TEST_F(accelerator_test, copy__no_copier_is_told_by_poll_and_the_next_job_tries_again) {
  void* const a = gpu_memory(64);
  for (const char* call : {"cuDevicePrimaryCtxRetain", "cuMemHostAlloc", "cuStreamCreate"}) {
    make();
    told_job jobs[2], later;
    mock().fail_nth(call, 1, abi::result::out_of_memory);
    for (told_job& job : jobs) copy(job, copy_way::to_peer, a, a, 64);
    EXPECT_EQ(jobs[0].calls, 0);
    finish(2);
    EXPECT_TRUE(has(jobs[0].error, call)) << jobs[0].error;
    EXPECT_EQ(jobs[1].error, "") << "asked for after memory was there again";
    copy(later, copy_way::to_peer, a, a, 64);
    finish(1);
    EXPECT_EQ(later.error, "");
  }
}

TEST_F(accelerator_test, copy__one_bad_job_does_not_spoil_its_company) {
  void* const a = gpu_memory(4 * KIB);
  std::deque<told_job> jobs(20);
  copy(jobs[0], copy_way::to_peer, a, a, 8);
  mock().fail_nth("cuMemcpyBatchAsync", 1, abi::result::invalid_value);
  mock().fail_nth("cuMemcpyAsync", 3, abi::result::invalid_value);
  for (std::size_t i = 1; i < jobs.size(); ++i) copy(jobs[i], copy_way::to_peer, a, a, 8);
  finish(jobs.size());
  int failed = 0;
  for (const told_job& job : jobs) {
    EXPECT_EQ(job.calls, 1);
    failed += job.error.empty() ? 0 : 1;
    EXPECT_TRUE(job.error.empty() || has(job.error, "cuMemcpyAsync failed on GPU 0: "))
        << job.error;
  }
  EXPECT_EQ(failed, 1);
  // Company again after that.
  mock().forget_counts();
  for (told_job& job : jobs) copy(job, copy_way::to_peer, a, a, 8);
  finish(jobs.size());
  EXPECT_EQ(mock().count("cuMemcpyBatchAsync"), 2u);  // one of WORTH_A_POST, and the rest
}

TEST_F(accelerator_test, copy__gpu_error_ends_all_that_is_under_way_and_all_that_comes) {
  void* const a = gpu_memory(MIB);
  const auto in = pattern(MIB, 6);
  std::deque<told_job> jobs(100);
  for (std::size_t i = 0; i < jobs.size(); ++i)
    copy(jobs[i], copy_way::to_device, a, in.data(), i % 10 == 0 ? MIB : 8);
  mock().break_next_operation(abi::result::illegal_address);
  finish(jobs.size());
  int failed = 0;
  for (const told_job& job : jobs) {
    EXPECT_EQ(job.calls, 1);
    failed += job.error.empty() ? 0 : 1;
  }
  EXPECT_EQ(failed, 100);
  told_job later;
  copy(later, copy_way::to_device, a, in.data(), 8);
  finish(1);
  EXPECT_TRUE(has(later.error, "illegal memory access")) << later.error;
}

TEST_F(accelerator_test, copy__context_lost_ends_all_jobs) {
  void* const a = gpu_memory(MIB);
  const auto in = pattern(MIB, 7);
  std::deque<told_job> jobs(50);
  for (std::size_t i = 0; i < jobs.size(); ++i)
    copy(jobs[i], copy_way::to_device, a, in.data(), i % 10 == 0 ? MIB : 8);
  mock().destroy_context(0);
  acc_.reset();  // polls until all are told
  for (const told_job& job : jobs) {
    EXPECT_EQ(job.calls, 1);
    EXPECT_TRUE(has(job.error, "CUDA_ERROR_CONTEXT_IS_DESTROYED")) << job.error;
  }
}

TEST_F(accelerator_test, copy__more_failures_than_are_told_at_once) {
  void* const a = gpu_memory(MIB);
  told_job first;
  copy(first, copy_way::to_peer, a, a, 8);
  finish(1);
  mock().destroy_context(0);
  std::deque<told_job> jobs(300);
  for (told_job& job : jobs) copy(job, copy_way::to_peer, a, a, MIB);
  finish(jobs.size());
  for (const told_job& job : jobs) {
    EXPECT_EQ(job.calls, 1);
    EXPECT_NE(job.error, "");
  }
}

// Any driver call may fail at any time: each job is told once, and nothing is left over.
TEST_F(accelerator_test, copy__each_failing_call) {
  void* const a = gpu_memory(MIB);
  const auto in = pattern(MIB, 8);
  for (const auto& [call, code] :
       {std::pair{"cuDevicePrimaryCtxRetain", abi::result::out_of_memory},
        std::pair{"cuMemHostAlloc", abi::result::out_of_memory},
        std::pair{"cuMemHostGetDevicePointer", abi::result::invalid_value},
        std::pair{"cuStreamCreate", abi::result::out_of_memory},
        std::pair{"cuCtxPushCurrent", abi::result::context_is_destroyed},
        std::pair{"cuMemcpyAsync", abi::result::out_of_memory},
        std::pair{"cuMemcpyBatchAsync", abi::result::invalid_value},
        std::pair{"cuStreamWriteValue64", abi::result::launch_failed},
        std::pair{"cuStreamBatchMemOp", abi::result::launch_failed},
        std::pair{"cuStreamQuery", abi::result::launch_failed}}) {
    int reached = 0;
    for (int n = 1; n < 60; ++n) {
      make();
      mock().forget_counts();
      mock().fail_nth(call, n, code);
      std::deque<told_job> jobs(60);
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        copy(jobs[i], static_cast<copy_way>(i % 3), a, i % 3 == 0 ? in.data() : a,
             i % 20 == 19 ? MIB : 8);
      }
      finish(jobs.size());
      for (const told_job& job : jobs) ASSERT_EQ(job.calls, 1) << call << " " << n;
      mock().run_all();
      if (static_cast<int>(mock().count(call)) < n) break;
      ++reached;
    }
    mock().fail_nth(call, 0, abi::result::success);
    EXPECT_GE(reached, std::string(call) == "cuStreamQuery" ? 0 : 1) << call;
    acc_.reset();
    for (const std::string& leak : mock().leaks()) ADD_FAILURE() << call << ": " << leak;
  }
}

TEST_F(accelerator_test, copy__words_that_the_driver_does_not_write_are_copied) {
  void* const a = gpu_memory(64);
  const auto in = pattern(8, 31);
  told_job job;
  mock().fail_nth("cuStreamBatchMemOp", 1, abi::result::invalid_value);
  copy(job, copy_way::to_device, a, in.data(), 8);
  finish(1);
  EXPECT_EQ(job.error, "");
  EXPECT_EQ(mock().count("cuMemcpyAsync"), 1u);
  EXPECT_EQ(read(a, 8), in);
}

}  // namespace
}  // namespace lci::cuda
