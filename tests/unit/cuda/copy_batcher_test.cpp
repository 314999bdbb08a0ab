#include "backends/cuda/copy_batcher.hpp"

#include <deque>
#include <thread>
#include <tuple>

#include "tests/support/alloc_counter.hpp"
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
  // The first went at once, then as many as are worth a post; the rest waits for a poll.
  EXPECT_EQ(mock().count("cuStreamWriteValue64"), 2u);
  finish(jobs.size());
  EXPECT_EQ(mock().count("cuMemcpy2DAsync"), 1u);
  EXPECT_EQ(mock().count("cuMemcpyAsync"), 0u);
  EXPECT_EQ(mock().count("cuMemcpyBatchAsync"), 2u);
  EXPECT_EQ(mock().count("cuStreamWriteValue64"), 3u);
  for (const told_job& job : jobs) {
    EXPECT_EQ(job.calls, 1);
    EXPECT_EQ(job.error, "");
  }
  EXPECT_EQ(read(a, in.size()), in);
}

TEST_F(accelerator_test, copy__a_batch_worth_it_goes_without_a_poll_and_two_are_under_way_at_most) {
  void* const a = gpu_memory(4 * KIB);
  std::deque<told_job> jobs(4 * lane::BATCH);
  mock().forget_counts();
  for (told_job& job : jobs) copy(job, copy_way::to_peer, a, a, 8);
  EXPECT_EQ(mock().count("cuStreamWriteValue64"), 2u);
  for (int i = 0; i < 10; ++i) acc_->poll();
  EXPECT_EQ(mock().count("cuStreamWriteValue64"), copy_batcher::SMALL_UNDER_WAY);
  EXPECT_EQ(mock().queued_operations(), 1 + copy_batcher::WORTH_A_POST + 2);
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
  std::deque<told_job> bulk(2 * copy_batcher::LARGE_UNDER_WAY);
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

TEST_F(accelerator_test, copy__gathering_and_telling_allocate_nothing) {
  if (!test::has_alloc_counter()) GTEST_SKIP() << test::ALLOC_COUNTER_MISSING;
  void* const a = gpu_memory(KIB);
  std::deque<told_job> jobs(copy_batcher::WORTH_A_POST);
  copy(jobs[0], copy_way::to_peer, a, a, 8);  // the mock allocates, so its calls are left out
  {
    const test::alloc_counter counter;
    for (std::size_t i = 1; i < jobs.size(); ++i) copy(jobs[i], copy_way::to_peer, a, a, 8);
    EXPECT_EQ(counter.calls(), 0u);
  }
  acc_->poll();
  mock().run_all();
  const test::alloc_counter counter;
  EXPECT_EQ(acc_->poll(), jobs.size());
  EXPECT_EQ(counter.calls(), 0u);
}

TEST_F(accelerator_test, copy_and_flag__sets_the_word_behind_the_bytes) {
  const auto in = pattern(MIB, 6);
  alignas(8) static std::uint64_t word;
  ASSERT_EQ(acc_->pin(&word, sizeof word), "");
  for (const std::size_t size : {std::size_t{8}, 4 * KIB, MIB}) {
    void* const a = gpu_memory(size);
    told_job job;
    job.way = copy_way::to_device;
    job.to = static_cast<std::byte*>(a);
    job.from = in.data();
    job.size = size;
    word = 1;
    ASSERT_TRUE(acc_->copy_and_flag(job, &word, 2));
    while (std::atomic_ref(word).load() == 1) {
      EXPECT_EQ(job.calls, 0);
      acc_->poll();  // a large one goes in chunks
      ASSERT_GT(mock().advance(1), 0u);
    }
    EXPECT_EQ(word, 2u);
    EXPECT_EQ(read(a, size),
              decltype(in)(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(size)));
    finish(1);
    EXPECT_EQ(job.error, "");
  }
  acc_->unpin(&word);
}

TEST_F(accelerator_test, copy_and_flag__is_refused_where_it_would_not_go_alone_and_takes_nothing) {
  void* const a = gpu_memory(KIB);
  alignas(8) static std::uint64_t word;
  ASSERT_EQ(acc_->pin(&word, sizeof word), "");
  word = 1;
  told_job first, second, nowhere;
  copy(first, copy_way::to_peer, a, a, 64);
  second.way = copy_way::to_peer;
  second.to = static_cast<std::byte*>(a);
  second.from = second.to;
  second.size = 64;
  EXPECT_FALSE(acc_->copy_and_flag(second, &word, 2));
  nowhere.device = 99;
  nowhere.size = 8;
  EXPECT_FALSE(acc_->copy_and_flag(nowhere, &word, 2));
  finish(1);
  // What the driver refuses is not taken either.
  mock().fail_nth("cuMemcpyAsync", 1, abi::result::invalid_value);
  EXPECT_FALSE(acc_->copy_and_flag(second, &word, 2));
  EXPECT_EQ(acc_->poll(), 0u);
  EXPECT_EQ(second.calls + nowhere.calls, 0);
  EXPECT_EQ(word, 1u);
  ASSERT_TRUE(acc_->copy_and_flag(second, &word, 2));
  finish(1);
  EXPECT_EQ(second.calls, 1);
  acc_->unpin(&word);
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

TEST_F(accelerator_test, copy__words_from_the_host_are_written_without_a_copy) {
  auto* const a = static_cast<std::byte*>(gpu_memory(KIB));
  fill(a, std::vector<std::byte>(KIB));
  const std::uint64_t wide = 0x0123456789abcdef;
  const std::uint32_t narrow = 0xfedcba98;
  std::deque<told_job> jobs(3);
  mock().forget_counts();
  copy(jobs[0], copy_way::to_device, a + 8, &wide, 8);
  copy(jobs[1], copy_way::to_device, a + 20, &narrow, 4);
  copy(jobs[2], copy_way::to_device, a + 32, &wide, 8);
  finish(jobs.size());
  EXPECT_EQ(mock().count("cuStreamBatchMemOp"), 2u);
  for (const char* call : {"cuMemcpyAsync", "cuMemcpyBatchAsync", "cuStreamWriteValue64"})
    EXPECT_EQ(mock().count(call), 0u) << call;
  std::vector<std::byte> expected(KIB);
  std::memcpy(&expected[8], &wide, 8);
  std::memcpy(&expected[20], &narrow, 4);
  std::memcpy(&expected[32], &wide, 8);
  EXPECT_EQ(read(a, KIB), expected);
  for (const told_job& job : jobs) EXPECT_EQ(job.error, "");
}

TEST_F(accelerator_test, copy__what_is_no_word_is_copied) {
  auto* const a = static_cast<std::byte*>(gpu_memory(KIB));
  const auto in = pattern(KIB, 30);
  std::vector<std::byte> out(8);
  const auto expect_copied = [&](copy_way way, std::byte* to, const std::byte* from,
                                 std::size_t size) {
    told_job job;
    copy(job, way, to, from, size);
    finish(1);
    EXPECT_EQ(job.error, "");
    EXPECT_EQ(mock().count("cuStreamBatchMemOp"), 0u);
  };
  expect_copied(copy_way::to_device, a + 4, in.data(), 8);
  expect_copied(copy_way::to_device, a + 2, in.data(), 4);
  expect_copied(copy_way::to_device, a, in.data(), 2);
  expect_copied(copy_way::to_device, a, in.data(), 16);
  expect_copied(copy_way::to_peer, a + 64, a, 8);
  expect_copied(copy_way::to_host, out.data(), a, 8);
  // More than a batch of words may have.
  std::deque<told_job> jobs(lane::STORES + 2);
  for (told_job& job : jobs) copy(job, copy_way::to_device, a, in.data(), 8);
  finish(jobs.size());
  EXPECT_EQ(mock().count("cuStreamBatchMemOp"), 1u);  // the first, which went alone
  EXPECT_EQ(mock().count("cuMemcpyBatchAsync"), 1u);
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
  EXPECT_EQ(mock().count("cuEventRecord"), 3u);
  EXPECT_EQ(mock().count("cuMemcpy2DAsync"), 64u);
  EXPECT_EQ(read(a, in.size()), in);
}

TEST_F(accelerator_old_driver_test, copy__one_bad_job_does_not_spoil_its_company) {
  void* const a = gpu_memory(4 * KIB);
  for (const auto code : {abi::result::invalid_value, abi::result::out_of_memory}) {
    std::deque<told_job> jobs(20);
    copy(jobs[0], copy_way::to_peer, a, a, 8);
    for (std::size_t i = 1; i < jobs.size(); ++i) copy(jobs[i], copy_way::to_peer, a, a, 8);
    mock().fail_nth("cuMemcpyAsync", 5, code);
    finish(jobs.size());
    for (const told_job& job : jobs) {
      EXPECT_EQ(job.calls, 1);
      EXPECT_EQ(job.error, "") << "asked for alone it was not refused";
    }
    told_job bad;
    mock().fail_nth("cuMemcpyAsync", 1, code);
    copy(bad, copy_way::to_peer, a, a, 8);
    finish(1);
    EXPECT_TRUE(has(bad.error, "cuMemcpyAsync failed on GPU 0")) << bad.error;
  }
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
