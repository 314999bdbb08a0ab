// The resident kernel begins, ends and fails, with jobs on their way to it.
#include "tests/accelerator/user_stream.hpp"
#include "tests/unit/cuda/resident_fixture.hpp"

namespace lci::cuda {
namespace {

using mem::copy_way;

TEST_F(resident_test, idle__it_ends_by_itself_and_the_next_job_starts_it_again) {
  for (std::size_t launches = 1; launches < 5; ++launches) {
    start_kernel();
    EXPECT_EQ(mock().count("cuLaunchKernel"), launches);
    EXPECT_GT(mock().queued_operations(), 0u);
    mock().run_all();
    EXPECT_EQ(mock().queued_operations(), 0u);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(acc_->poll(), 0u);
    EXPECT_EQ(mock().count("cuLaunchKernel"), launches) << "nobody wanted it";
  }
}

// Whatever the order of the last look of each block and the post: told once, with the bytes there.
TEST_F(resident_test, end__with_a_job_on_its_way_loses_nothing) {
  std::byte* const a = at(gpu_memory(512 * KIB));
  std::byte* const b = at(gpu_memory(512 * KIB));
  auto* const word = reinterpret_cast<std::uint64_t*>(pinned(64));
  std::size_t missed = 0, shared = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    mock().set_seed(seed);
    start_kernel();
    const std::size_t size = seed % 2 == 0 ? 64 : 512 * KIB;
    const auto bytes = pattern(size, seed);
    fill(a, bytes);
    *word = 1;
    told_job flagged, other;
    mock().forget_counts();
    acc_->tidy();  // it is to end
    mock().advance(seed % 16);
    const bool is_taken = copy_and_flag(flagged, b, a, size, word, 2);
    copy(other, copy_way::to_peer, a + size / 2, a + size / 2, 8);
    if (!is_taken) {
      finish(1);
      continue;
    }
    finish(2);
    ASSERT_EQ(flagged.calls, 1);
    ASSERT_EQ(flagged.error + other.error, "");
    ASSERT_EQ(*word, 2u) << seed;
    ASSERT_EQ(read(b, size), bytes) << seed;
    missed += mock().count("cuMemcpyAsync") != 0;
    shared += by_kernel() != 0 && mock().count("cuMemcpyAsync") != 0;
  }
  EXPECT_GT(missed, 5u) << "the copy engine has never taken over";
  EXPECT_GT(shared, 2u) << "never when some blocks had done their part";
}

TEST_F(resident_test, end__a_flag_is_not_raised_by_a_copy_that_failed_after_it) {
  std::byte* const a = at(gpu_memory(64));
  auto* const word = reinterpret_cast<std::uint64_t*>(pinned(64));
  bool was_seen = false;
  for (unsigned seed = 1; seed <= 50 && !was_seen; ++seed) {
    mock().set_seed(seed);
    start_kernel();
    acc_->tidy();
    *word = 1;
    told_job job;
    ASSERT_TRUE(copy_and_flag(job, a, a + 16, 16, word, 2));
    mock().fail_nth("cuMemcpyAsync", 1, abi::result::invalid_value);
    finish(1);
    if (job.error.empty()) {
      mock().fail_nth("cuMemcpyAsync", -1, abi::result::success);  // never
      continue;
    }
    was_seen = true;
    EXPECT_EQ(*word, 1u);
    EXPECT_TRUE(has(job.error, "cuMemcpyAsync failed")) << job.error;
  }
  EXPECT_TRUE(was_seen);
}

class short_lived_test : public resident_test {
 protected:
  short_lived_test() : resident_test({.resident_life = 60}, 2) {}
};

TEST_F(short_lived_test, life__it_ends_when_busy_too_and_nothing_is_lost) {
  std::byte* const a = at(gpu_memory(128 * KIB));
  std::byte* const b = at(gpu_memory(128 * KIB));
  std::deque<told_job> jobs(3000);
  std::size_t told = 0, next = 0;
  const auto bytes = pattern(128 * KIB, 5);
  fill(a, bytes);
  while (told < jobs.size()) {
    for (int i = 0; i < 4 && next < jobs.size(); ++i, ++next)
      copy(jobs[next], copy_way::to_peer, b, a, next % 7 == 0 ? 128 * KIB : 16);
    mock().advance(3);
    told += acc_->poll();
  }
  for (const told_job& job : jobs) {
    ASSERT_EQ(job.calls, 1);
    ASSERT_EQ(job.error, "");
  }
  EXPECT_EQ(read(b, 128 * KIB), bytes);
  EXPECT_GT(mock().count("cuLaunchKernel"), 10u);
  EXPECT_GT(by_kernel(), 500u);
}

// On a real driver the first message hung while a stream waited for it: loading code waits for
// streams.
TEST_F(resident_test, make__comes_before_a_stream_of_the_program_waits) {
  gpu users(driver_, 0);
  const context_scope scope(users.call(), users.context());
  const user_stream stream(LCI_MOCK_CUDA);
  ASSERT_FALSE(acc_->is_captured(stream.get()));
  mem::stream_word& word = acc_->take_word();
  const mem::stream_step wait{mem::stream_step::kind::wait_until_equal, &word, 1};
  acc_->enqueue(stream.get(), std::span(&wait, 1));
  start_kernel();  // or the mock says that it hangs
  EXPECT_EQ(mock().count("cuModuleLoadData"), 1u);
  word.store(1);
  mock().run_all();
  acc_->put_word(word);
}

TEST_F(resident_test, make__what_cannot_be_had_is_done_without) {
  void* const a = gpu_memory(64);
  // The copier makes six streams and one piece of pinned memory, twelve addresses of which it asks.
  const std::tuple<const char*, int, const char*> faults[] = {
      {"cuModuleLoadData", 1, "cuModuleLoadData"},
      {"cuModuleGetFunction", 1, "cuModuleGetFunction"},
      {"cuFuncGetAttribute", 1, "cuFuncGetAttribute"},
      {"cuStreamCreate", 7, "cuStreamCreate"},
      {"cuMemHostAlloc", 2, "cuMemHostAlloc"},
      {"cuMemHostGetDevicePointer", 13, "cuMemHostGetDevicePointer"}};
  for (const auto& [call, n, text] : faults) {
    remake();
    mock().fail_nth(call, n, abi::result::out_of_memory);
    testing::internal::CaptureStderr();
    std::deque<told_job> jobs(10);
    for (told_job& job : jobs) {
      copy(job, copy_way::to_peer, a, a, 16);
      finish(1);
      EXPECT_EQ(job.error, "");
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(has(said, "works without its resident copy kernel")) << call << said;
    EXPECT_TRUE(has(said, text)) << said;
    EXPECT_EQ(said.find("works without"), said.rfind("works without")) << "once";
    EXPECT_EQ(mock().count("cuLaunchKernel"), 0u);
  }
}

TEST_F(resident_test, make__an_image_that_the_gpu_does_not_take) {
  static constexpr std::array<unsigned char, 64> NONE{};
  options_.resident_image = NONE;
  remake();
  void* const a = gpu_memory(64);
  testing::internal::CaptureStderr();
  told_job job;
  copy(job, copy_way::to_peer, a, a, 16);
  finish(1);
  EXPECT_TRUE(has(testing::internal::GetCapturedStderr(), "cuModuleLoadData failed on GPU 0"));
  EXPECT_EQ(job.error, "");
}

TEST_F(resident_test, launch__that_fails_is_the_last_one) {
  void* const a = gpu_memory(64);
  for (const auto code : {abi::result::out_of_memory, abi::result::launch_failed}) {
    remake();
    mock().forget_counts();
    mock().fail_nth("cuLaunchKernel", 1, code);
    testing::internal::CaptureStderr();
    std::deque<told_job> jobs(10);
    for (told_job& job : jobs) {
      copy(job, copy_way::to_peer, a, a, 16);
      finish(1);
      EXPECT_EQ(job.error, "");
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(has(said, "not used any more: cuLaunchKernel failed on GPU 0")) << said;
    EXPECT_EQ(said.find("not used any more"), said.rfind("not used any more")) << "once";
    EXPECT_EQ(mock().count("cuLaunchKernel"), 1u);
  }
}

TEST_F(resident_test, launch__of_a_later_time_that_fails) {
  start_kernel();
  mock().run_all();
  mock().fail_nth("cuLaunchKernel", 1, abi::result::out_of_memory);
  void* const a = gpu_memory(64);
  testing::internal::CaptureStderr();
  std::deque<told_job> jobs(10);
  for (told_job& job : jobs) {
    copy(job, copy_way::to_peer, a, a, 16);
    finish(1);
    EXPECT_EQ(job.error, "");
  }
  EXPECT_TRUE(has(testing::internal::GetCapturedStderr(), "not used any more"));
  EXPECT_EQ(mock().count("cuLaunchKernel"), 2u);
}

TEST_F(resident_test, error__a_kernel_that_dies_ends_what_it_has_with_the_error) {
  start_kernel();
  void* const a = gpu_memory(64);
  std::deque<told_job> jobs(5);
  for (told_job& job : jobs) copy(job, copy_way::to_peer, a, a, 16);
  mock().break_next_operation(abi::result::illegal_address);
  testing::internal::CaptureStderr();
  finish(jobs.size());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(has(said, "resident copy kernel is not used any more")) << said;
  for (const told_job& job : jobs) {
    EXPECT_EQ(job.calls, 1);
    EXPECT_TRUE(has(job.error, "illegal memory access")) << job.error;
  }
  // The context is of no use any more, and that is what later ones hear.
  told_job later;
  copy(later, copy_way::to_peer, a, a, 16);
  finish(1);
  EXPECT_NE(later.error, "");
}

TEST_F(resident_test, error__a_context_that_is_gone_ends_what_it_has) {
  start_kernel();
  void* const a = gpu_memory(64);
  told_job job;
  copy(job, copy_way::to_peer, a, a, 16);
  mock().destroy_context(0);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 5000 && job.calls == 0; ++i) acc_->poll();
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(job.calls, 1);
  EXPECT_NE(job.error, "");
}

TEST_F(resident_test, shared_gpu__is_done_without_once_it_is_known) {
  gpu_list gpus(driver_);
  pinned_ranges none;
  resident one(gpus.at(0), {4, STAND_IN, &none});
  gpus.at(0).note_shared();
  testing::internal::CaptureStderr();
  std::byte* const a = at(gpu_memory(64));
  for (int i = 0; i < 5; ++i) {
    told_job job;
    job.to = a;
    job.from = a;
    job.size = 16;
    job.way = copy_way::to_peer;
    job.is_in_reach = true;
    EXPECT_FALSE(one.take(job, {}));
    copy_job_list unwanted;
    EXPECT_EQ(one.poll(unwanted), 0u);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(has(said, "another process uses the GPU")) << said;
  EXPECT_EQ(said.find("another"), said.rfind("another")) << "once";
  EXPECT_EQ(mock().count("cuLaunchKernel"), 0u);
}

class long_lived_test : public resident_test {
 protected:
  static constexpr unsigned NEVER = ~0u;
  long_lived_test() : resident_test({.resident_idle = NEVER, .resident_life = NEVER}) {}
  ~long_lived_test() override {
    mock().set_engine_thread(true);  // run_all() would not come back
    acc_.reset();
    mock().set_engine_thread(false);
  }
};

TEST_F(long_lived_test, destructor__tells_it_to_end) {
  start_kernel();
  mock().set_engine_thread(true);
  acc_.reset();
  mock().set_engine_thread(false);
  EXPECT_EQ(mock().queued_operations(), 0u);
}

TEST_F(long_lived_test, tidy_and_unpin__tell_it_to_end_before_they_wait_for_the_gpu) {
  std::byte* const host = pinned(64);
  for (int i = 0; i < 2; ++i) {
    start_kernel();
    if (i == 0) {
      acc_->tidy();
    } else {
      acc_->unpin(host);
    }
    mock().run_all();
    EXPECT_EQ(mock().queued_operations(), 0u);
  }
}

TEST_F(resident_test, busy_gpu__a_kernel_that_does_not_begin_gets_no_jobs) {
  void* const a = gpu_memory(64);
  std::deque<told_job> jobs(20);
  // One block at most begins: the others find no room.
  for (told_job& job : jobs) {
    copy(job, copy_way::to_peer, a, a, 16);
    acc_->poll();
  }
  EXPECT_EQ(mock().count("cuLaunchKernel"), 1u);
  mock().advance(1);
  mock().forget_counts();
  told_job job;
  copy(job, copy_way::to_peer, a, a, 16);
  EXPECT_EQ(mock().count("cuLaunchKernel"), 0u);
  finish(jobs.size() + 1);
  EXPECT_EQ(job.error, "");
}

}  // namespace
}  // namespace lci::cuda
