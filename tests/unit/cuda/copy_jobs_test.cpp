#include "backends/cuda/copy_jobs.hpp"

#include <deque>
#include <thread>
#include <tuple>

#include "tests/unit/cuda/accelerator_fixture.hpp"

namespace lci::cuda {
namespace {

using mem::copy_way;

TEST_F(accelerator_test, copy__every_way_and_size) {
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{8}, 4 * KIB, 64 * KIB, 64 * KIB + 1, MIB + 17}) {
    void* const a = gpu_memory(size, 0);
    void* const b = gpu_memory(size, 1);
    std::vector<std::byte> out(size), in = pattern(size, static_cast<unsigned>(size));
    for (const auto& [way, to, from, device] :
         {std::tuple{copy_way::to_device, a, static_cast<void*>(in.data()), 0},
          std::tuple{copy_way::to_peer, b, a, 0},
          std::tuple{copy_way::to_host, static_cast<void*>(out.data()), b, 1}}) {
      told_job job;
      copy(job, way, to, from, size, device);
      EXPECT_EQ(job.calls, 0);
      finish(1);
      EXPECT_EQ(job.calls, 1);
      EXPECT_EQ(job.error, "");
      EXPECT_EQ(job.next, nullptr);
    }
    EXPECT_EQ(out, in) << size;
    mock().free(a);
    mock().free(b);
  }
  EXPECT_EQ(mock().context_depth(), 0u);
}

TEST_F(accelerator_test, copy__one_wrong_byte_would_be_seen) {
  void* const a = gpu_memory(4 * KIB);
  std::vector<std::byte> out(4 * KIB), in = pattern(4 * KIB, 1);
  told_job there, back;
  copy(there, copy_way::to_device, a, in.data(), in.size());
  finish(1);
  mock().contents(a)[77] ^= std::byte{1};
  copy(back, copy_way::to_host, out.data(), a, out.size());
  finish(1);
  EXPECT_NE(out, in);
}

TEST_F(accelerator_test, copy__tells_nobody_and_poll_not_before_the_gpu_has_run) {
  void* const a = gpu_memory(4 * KIB);
  const auto in = pattern(4 * KIB, 2);
  told_job job;
  copy(job, copy_way::to_device, a, in.data(), in.size());
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(acc_->poll(), 0u);
  EXPECT_EQ(job.calls, 0);
  mock().run_all();
  EXPECT_EQ(job.calls, 0);
  EXPECT_EQ(acc_->poll(), 1u);
  EXPECT_EQ(job.calls, 1);
}

TEST_F(accelerator_test, copy__many_small_ones_take_few_posts) {
  void* const a = gpu_memory(64 * KIB);
  const auto in = pattern(64 * KIB, 3);
  std::deque<told_job> jobs(64);
  mock().forget_counts();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    copy(jobs[i], copy_way::to_device, static_cast<std::byte*>(a) + i * KIB, in.data() + i * KIB,
         KIB);
  }
  // The first went at once, and nothing more before somebody polls.
  EXPECT_EQ(mock().count("cuStreamWriteValue64"), 1u);
  finish(jobs.size());
  EXPECT_EQ(mock().count("cuMemcpyAsync"), 1u);
  EXPECT_EQ(mock().count("cuMemcpyBatchAsync"), 1u);
  EXPECT_EQ(mock().count("cuStreamWriteValue64"), 2u);
  for (const told_job& job : jobs) {
    EXPECT_EQ(job.calls, 1);
    EXPECT_EQ(job.error, "");
  }
  EXPECT_EQ(read(a, in.size()), in);
}

TEST_F(accelerator_test, copy__a_full_batch_goes_without_a_poll_and_two_are_under_way_at_most) {
  void* const a = gpu_memory(4 * KIB);
  std::deque<told_job> jobs(4 * lane::BATCH);
  mock().forget_counts();
  for (told_job& job : jobs) copy(job, copy_way::to_peer, a, a, 8);
  EXPECT_EQ(mock().count("cuStreamWriteValue64"), 2u);
  for (int i = 0; i < 10; ++i) acc_->poll();
  EXPECT_EQ(mock().count("cuStreamWriteValue64"), copy_jobs::SMALL_UNDER_WAY);
  EXPECT_EQ(mock().queued_operations(), 1 + lane::BATCH + 2);
  finish(jobs.size());
  for (const told_job& job : jobs) EXPECT_EQ(job.calls, 1);
}

TEST_F(accelerator_test, copy__a_batch_is_no_larger_than_a_small_post_may_be) {
  void* const a = gpu_memory(64 * KIB);
  std::deque<told_job> jobs(9);
  mock().forget_counts();
  for (told_job& job : jobs) copy(job, copy_way::to_peer, a, a, 48 * KIB);
  finish(jobs.size());
  EXPECT_EQ(mock().count("cuMemcpyBatchAsync"), 0u);
  EXPECT_EQ(mock().count("cuMemcpyAsync"), jobs.size());
  for (const told_job& job : jobs) EXPECT_EQ(job.error, "");
}

TEST_F(accelerator_test, copy__large_ones_do_not_hold_up_small_ones) {
  void* const a = gpu_memory(4 * MIB);
  const auto large = pattern(4 * MIB, 4), little = pattern(64, 5);
  void* const b = gpu_memory(64);
  std::deque<told_job> bulk(2 * copy_jobs::LARGE_UNDER_WAY);
  told_job small;
  for (told_job& job : bulk) copy(job, copy_way::to_device, a, large.data(), large.size());
  EXPECT_LE(mock().queued_bytes(), 2 * 256 * KIB);  // chunks
  copy(small, copy_way::to_device, b, little.data(), little.size());
  mock().run_all();
  EXPECT_EQ(acc_->poll(), 1u);
  EXPECT_EQ(small.calls, 1);
  finish(bulk.size());
  for (const told_job& job : bulk) EXPECT_EQ(job.calls, 1);
  EXPECT_EQ(read(a, large.size()), large);
}

TEST_F(accelerator_test, poll__idle_asks_the_driver_nothing) {
  told_job job;
  void* const a = gpu_memory(64);
  copy(job, copy_way::to_peer, a, a, 64);
  finish(1);
  mock().forget_counts();
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(acc_->poll(), 0u);
  for (const char* name : {"cuStreamQuery", "cuCtxPushCurrent", "cuEventQuery"})
    EXPECT_EQ(mock().count(name), 0u) << name;
}

TEST_F(accelerator_test, copy__of_no_bytes_is_told_by_poll) {
  told_job job;
  copy(job, copy_way::to_device, nullptr, nullptr, 0);
  EXPECT_EQ(job.calls, 0);
  EXPECT_EQ(acc_->poll(), 1u);
  EXPECT_EQ(job.error, "");
}

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
  EXPECT_EQ(mock().count("cuMemcpyBatchAsync"), 1u);
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

// Without the driver's batch call, jobs of one post are separate calls.
class accelerator_old_driver_test : public accelerator_test {
 protected:
  accelerator_old_driver_test()
      : accelerator_test({.stream_writes = false, .missing = {"cuMemcpyBatchAsync"}}) {}
};

TEST_F(accelerator_old_driver_test, copy__still_one_mark_for_a_batch) {
  void* const a = gpu_memory(64 * KIB);
  const auto in = pattern(64 * KIB, 9);
  std::deque<told_job> jobs(64);
  mock().forget_counts();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    copy(jobs[i], copy_way::to_device, static_cast<std::byte*>(a) + i * KIB, in.data() + i * KIB,
         KIB);
  }
  finish(jobs.size());
  EXPECT_EQ(mock().count("cuEventRecord"), 2u);
  EXPECT_EQ(mock().count("cuMemcpyAsync"), 64u);
  EXPECT_EQ(read(a, in.size()), in);
}

// A job that asks for the next one from its own end, as protocols do.
struct chained_job final : mem::copy_job {
  void on_copied(std::string_view error) noexcept override {
    EXPECT_EQ(error, "");
    if (--left > 0) to_whom->copy(*this);
  }
  mem::accelerator* to_whom = nullptr;
  int left = 50;
};

TEST_F(accelerator_test, on_copied__may_ask_for_the_next_copy) {
  void* const a = gpu_memory(64);
  chained_job job;
  job.to_whom = acc_.get();
  job.to = static_cast<std::byte*>(a);
  job.from = static_cast<std::byte*>(a);
  job.size = 64;
  job.way = mem::copy_way::to_peer;
  acc_->copy(job);
  finish(50);
  EXPECT_EQ(job.left, 0);
}

TEST_F(accelerator_test, destructor__waits_for_the_jobs) {
  void* const a = gpu_memory(MIB);
  const auto in = pattern(MIB, 10);
  mock().set_engine_thread(true);
  std::deque<told_job> jobs(100);
  for (std::size_t i = 0; i < jobs.size(); ++i)
    copy(jobs[i], copy_way::to_device, a, in.data(), i % 9 == 0 ? MIB : 8);
  acc_.reset();
  mock().set_engine_thread(false);
  for (const told_job& job : jobs) {
    EXPECT_EQ(job.calls, 1);
    EXPECT_EQ(job.error, "");
  }
}

TEST_F(accelerator_test, threads__copy_and_poll_together) {
  mock().set_engine_thread(true);
  constexpr std::size_t THREADS = 3, EACH = 300;
  std::vector<std::vector<std::byte>> inputs;
  std::vector<void*> outputs;
  for (std::size_t t = 0; t < THREADS; ++t) {
    inputs.push_back(pattern(128 * KIB, static_cast<unsigned>(20 + t)));
    outputs.push_back(gpu_memory(128 * KIB));
  }
  std::deque<told_job> jobs(THREADS * EACH);
  std::atomic<std::size_t> told{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < THREADS; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < EACH; ++i) {
        copy(jobs[t * EACH + i], copy_way::to_device, outputs[t], inputs[t].data(),
             i % 20 == 0 ? 128 * KIB : 64, static_cast<int>(i % 2));
        if (i % 3 == t) told += acc_->poll();
      }
      while (told < jobs.size()) {
        told += acc_->poll();
        std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  mock().set_engine_thread(false);
  EXPECT_EQ(told, jobs.size());
  for (const told_job& job : jobs) {
    EXPECT_EQ(job.calls, 1);
    EXPECT_EQ(job.error, "");
  }
  for (std::size_t t = 0; t < THREADS; ++t) EXPECT_EQ(read(outputs[t], 128 * KIB), inputs[t]);
}

}  // namespace
}  // namespace lci::cuda
