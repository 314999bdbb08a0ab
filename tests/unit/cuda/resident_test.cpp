#include "backends/cuda/resident.hpp"

#include <thread>
#include <tuple>

#include "lci/errors.hpp"
#include "tests/support/alloc_counter.hpp"
#include "tests/unit/cuda/resident_fixture.hpp"

namespace lci::cuda {
namespace {

using mem::copy_way;

TEST_F(accelerator_test, keep_resident__off_launches_nothing) {
  void* const a = gpu_memory(64);
  std::deque<told_job> jobs(20);
  for (told_job& job : jobs) {
    job.is_in_reach = true;
    copy(job, copy_way::to_peer, a, a, 16);
    finish(1);
  }
  EXPECT_EQ(mock().count("cuModuleLoadData"), 0u);
  EXPECT_EQ(mock().count("cuLaunchKernel"), 0u);
}

TEST_F(accelerator_test, keep_resident__without_device_code_says_how_to_get_it) {
  options_.resident_image = {};
  make();
  acc_->keep_resident(0);
  try {
    acc_->keep_resident(4);
    ADD_FAILURE() << "accepted";
  } catch (const backend_error& error) {
    EXPECT_TRUE(has(error.what(), "-DLCI_USE_CUDA=ON")) << error.what();
  }
}

TEST_F(resident_test, copy__the_first_ones_go_by_the_engine_and_start_the_kernel) {
  void* const a = gpu_memory(64);
  std::deque<told_job> jobs(3);
  copy(jobs[0], copy_way::to_peer, a, a, 16);
  finish(1);
  EXPECT_EQ(mock().count("cuModuleLoadData"), 1u);
  EXPECT_EQ(mock().count("cuLaunchKernel"), 0u);
  copy(jobs[1], copy_way::to_peer, a, a, 16);
  EXPECT_EQ(mock().count("cuLaunchKernel"), 0u) << "not in the post";
  finish(1);
  EXPECT_EQ(mock().count("cuLaunchKernel"), 1u);
  EXPECT_EQ(by_kernel(), 0u);
  mock().advance(20);  // all blocks begin
  mock().forget_counts();
  copy(jobs[2], copy_way::to_peer, a, a, 16);
  finish(1);
  EXPECT_EQ(by_kernel(), 1u);
  EXPECT_EQ(by_engine(), 0u);
}

TEST_F(resident_test, copy__every_way_size_and_alignment) {
  start_kernel();
  const std::size_t room = 600 * KIB;
  std::byte* const a = at(gpu_memory(room));
  std::byte* const b = at(gpu_memory(room));
  std::byte* const out = pinned(room);
  std::byte* const in = pinned(room);
  const auto bytes = pattern(room, 7);
  std::memcpy(in, bytes.data(), room);
  unsigned seed = 0;
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{4}, std::size_t{8}, std::size_t{9}, std::size_t{100}, 4 * KIB,
        16 * KIB, 32 * KIB, 64 * KIB, 64 * KIB + 1, 100 * KIB + 7, 512 * KIB, 512 * KIB + 1}) {
    for (const std::size_t shift : {0, 1, 4, 8, 15}) {
      mock().set_seed(++seed);
      for (const auto& [way, to, from] :
           {std::tuple{copy_way::to_device, a + shift, in},
            std::tuple{copy_way::to_peer, b, a + shift}, std::tuple{copy_way::to_host, out, b}}) {
        told_job job;
        copy(job, way, to, from, size);
        finish(1);
        ASSERT_EQ(job.error, "") << size << " " << shift;
        ASSERT_EQ(job.calls, 1);
      }
      ASSERT_EQ(std::memcmp(out, in, size), 0) << size << " " << shift;
      std::memset(out, 0, size);
    }
  }
  EXPECT_GT(by_kernel(), 100u);
}

// Which jobs are the kernel's, and into how many parts they go.
TEST_F(resident_test, copy__the_kernel_gets_what_it_is_faster_at) {
  start_kernel();
  const std::size_t room = 2 * MIB;
  std::byte* const a = at(gpu_memory(room));
  std::byte* const b = at(gpu_memory(room));
  std::byte* const host = pinned(room);
  std::vector<std::byte> plain(room);
  const auto parts = [&](copy_way way, void* to, const void* from, std::size_t size,
                         bool is_in_reach = true) {
    start_kernel();
    mock().forget_counts();
    told_job job;
    job.is_in_reach = is_in_reach;
    accelerator_test::copy(job, way, to, from, size);
    finish(1);
    EXPECT_EQ(job.error, "");
    EXPECT_EQ(by_engine() != 0, by_kernel() == 0) << size;
    return by_kernel();
  };
  EXPECT_EQ(parts(copy_way::to_peer, a, b, 8), 1u);
  EXPECT_EQ(parts(copy_way::to_peer, a, b, 64 * KIB), 1u);
  EXPECT_EQ(parts(copy_way::to_peer, a, b, 96 * KIB), 3u);
  EXPECT_EQ(parts(copy_way::to_peer, a, b, 512 * KIB), 4u);
  EXPECT_EQ(parts(copy_way::to_peer, a, b, 512 * KIB + 1), 0u);
  EXPECT_EQ(parts(copy_way::to_peer, a, b, 8, false), 0u) << "another GPU's memory";
  EXPECT_EQ(parts(copy_way::to_peer, a + 1, b, 4 * KIB), 1u);
  EXPECT_EQ(parts(copy_way::to_peer, a + 1, b, 4 * KIB + 1), 0u);
  EXPECT_EQ(parts(copy_way::to_peer, a + 1, b + 1, 64 * KIB), 1u);
  EXPECT_EQ(parts(copy_way::to_device, a, host, 16 * KIB), 1u);
  EXPECT_EQ(parts(copy_way::to_device, a, host, 16 * KIB + 1), 0u);
  EXPECT_EQ(parts(copy_way::to_device, a, plain.data(), 16), 0u) << "not pinned";
  EXPECT_EQ(parts(copy_way::to_device, a, plain.data(), 8), 1u) << "travels in the command";
  EXPECT_EQ(parts(copy_way::to_host, host, a, 32 * KIB), 1u);
  EXPECT_EQ(parts(copy_way::to_host, host, a, 32 * KIB + 1), 0u);
  EXPECT_EQ(parts(copy_way::to_host, plain.data(), a, 8), 0u) << "not pinned";
  acc_->unpin(host);
  EXPECT_EQ(parts(copy_way::to_host, host, a, 8), 0u) << "not pinned any more";
}

TEST_F(resident_test, copy__what_is_inline_is_taken_at_the_post) {
  start_kernel();
  std::byte* const a = at(gpu_memory(64));
  auto bytes = pattern(8, 3);
  const auto expected = bytes;
  told_job job;
  copy(job, copy_way::to_device, a, bytes.data(), bytes.size());
  bytes.assign(8, std::byte{0xee});
  finish(1);
  EXPECT_EQ(read(a, 8), expected);
}

TEST_F(resident_test, copy_and_flag__the_word_comes_behind_the_bytes) {
  std::byte* const a = at(gpu_memory(MIB));
  std::byte* const b = at(gpu_memory(MIB));
  auto* const word = reinterpret_cast<std::uint64_t*>(pinned(64));
  for (const std::size_t size : {std::size_t{8}, 64 * KIB, 200 * KIB, 512 * KIB}) {
    start_kernel();
    const auto bytes = pattern(size, static_cast<unsigned>(size));
    fill(a, bytes);
    fill(b, std::vector<std::byte>(size));
    *word = 1;
    told_job job;
    mock().forget_counts();
    ASSERT_TRUE(copy_and_flag(job, b, a, size, word, 2));
    while (std::atomic_ref(*word).load() == 1) {
      EXPECT_EQ(job.calls, 0);
      acc_->poll();
      ASSERT_GT(mock().advance(1), 0u);
    }
    EXPECT_EQ(*word, 2u);
    EXPECT_EQ(read(b, size), bytes);
    EXPECT_GT(by_kernel(), 0u);
    EXPECT_EQ(by_engine(), 0u);
    finish(1);
    EXPECT_EQ(job.error, "");
  }
}

TEST_F(resident_test, copy_and_flag__a_word_that_kernels_cannot_reach_goes_by_the_engine) {
  start_kernel();
  std::byte* const a = at(gpu_memory(64));
  auto* const word =
      static_cast<std::uint64_t*>(mock().allocate(mocked::pinned, sizeof(std::uint64_t)));
  *word = 1;
  told_job job;
  mock().forget_counts();
  ASSERT_TRUE(copy_and_flag(job, a, a + 16, 16, word, 2));
  finish(1);
  EXPECT_EQ(*word, 2u);
  EXPECT_EQ(by_kernel(), 0u);
  mock().free(word);
}

TEST_F(resident_test, copy__rings_go_round_and_what_has_no_slot_goes_by_the_engine) {
  start_kernel();
  constexpr std::size_t EACH = 3 * resident_layout::SLOTS;
  std::byte* const a = at(gpu_memory(EACH * 64));
  std::byte* const b = at(gpu_memory(EACH * 64));
  for (unsigned round = 0; round < 20; ++round) {
    mock().set_seed(round);
    const auto bytes = pattern(EACH * 64, round);
    fill(a, bytes);
    std::deque<told_job> jobs(EACH);
    mock().forget_counts();
    for (std::size_t i = 0; i < EACH; ++i)
      copy(jobs[i], copy_way::to_peer, b + i * 64, a + i * 64, 64);
    finish(EACH);
    EXPECT_LE(by_kernel(), std::size_t{resident_layout::SLOTS});
    EXPECT_GT(by_engine(), 0u);
    for (const told_job& job : jobs) {
      ASSERT_EQ(job.calls, 1);
      ASSERT_EQ(job.error, "");
    }
    ASSERT_EQ(read(b, EACH * 64), bytes);
    start_kernel();
  }
}

TEST_F(resident_test, copy__many_through_few_slots_and_all_rings) {
  start_kernel();
  std::byte* const a = at(gpu_memory(MIB));
  std::byte* const b = at(gpu_memory(MIB));
  const auto bytes = pattern(MIB, 1);
  fill(a, bytes);
  for (std::size_t i = 0; i < 2000; ++i) {
    told_job job;
    // One of these is shared by three blocks, and a single one stands behind each of its parts.
    const std::size_t size = i % 3 == 0 ? 80 * KIB : 256;
    copy(job, copy_way::to_peer, b, a, size);
    finish(1);
    ASSERT_EQ(job.error, "");
  }
  EXPECT_GT(by_kernel(), 2000u);
  EXPECT_EQ(read(b, 80 * KIB), read(a, 80 * KIB));
}

TEST_F(resident_test, take_and_poll__allocate_nothing_and_ask_the_driver_nothing) {
  if (!test::has_alloc_counter()) GTEST_SKIP() << test::ALLOC_COUNTER_MISSING;
  start_kernel();
  void* const a = gpu_memory(KIB);
  std::deque<told_job> jobs(30);
  mock().forget_counts();
  {
    const test::alloc_counter counter;
    for (told_job& job : jobs) copy(job, copy_way::to_peer, a, a, 8);
    EXPECT_EQ(counter.calls(), 0u);
  }
  mock().advance(300);
  {
    const test::alloc_counter counter;
    EXPECT_EQ(acc_->poll(), jobs.size());
    EXPECT_EQ(counter.calls(), 0u);
  }
  for (const char* call : {"cuStreamQuery", "cuCtxPushCurrent", "cuLaunchKernel"})
    EXPECT_EQ(mock().count(call), 0u) << call;
}

TEST_F(resident_test, on_copied__may_ask_for_the_next_copy) {
  struct chained final : mem::copy_job {
    void on_copied(std::string_view error) noexcept override {
      EXPECT_EQ(error, "");
      if (--left > 0) to_whom->copy(*this);
    }
    mem::accelerator* to_whom = nullptr;
    int left = 200;
  } job;
  job.to_whom = acc_.get();
  job.to = at(gpu_memory(64));
  job.from = job.to;
  job.size = 64;
  job.way = copy_way::to_peer;
  job.is_in_reach = true;
  acc_->copy(job);
  finish(200);
  EXPECT_EQ(job.left, 0);
}

// The mock's kernel is as strict as a GPU: what the library keeps from it would end badly.
TEST_F(resident_test, must_fire__memory_that_a_kernel_cannot_reach_is_an_error) {
  start_kernel();
  void* const here = gpu_memory(64, 0);
  void* const there = gpu_memory(64, 1);
  told_job job;
  copy(job, copy_way::to_peer, there, here, 16);  // says that it is in reach
  finish(1);
  EXPECT_TRUE(has(job.error, "illegal memory access")) << job.error;
}

TEST_F(resident_test, threads__copy_and_poll_together) {
  mock().set_engine_thread(true);
  constexpr std::size_t THREADS = 3, EACH = 400;
  std::vector<std::byte*> from, to;
  for (std::size_t t = 0; t < THREADS; ++t) {
    from.push_back(at(gpu_memory(128 * KIB)));
    to.push_back(at(gpu_memory(128 * KIB)));
    fill(from[t], pattern(128 * KIB, static_cast<unsigned>(t)));
  }
  std::deque<told_job> jobs(THREADS * EACH);
  std::atomic<std::size_t> told{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < THREADS; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < EACH; ++i) {
        copy(jobs[t * EACH + i], copy_way::to_peer, to[t], from[t], i % 20 == 0 ? 128 * KIB : 64);
        // Slow enough for the kernel to come.
        while ((i + 1) * THREADS > told + 40) {
          told += acc_->poll();
          std::this_thread::yield();
        }
        if (i % 100 == 99) acc_->tidy();  // the kernel ends in the middle of things
      }
      while (told < jobs.size()) {
        told += acc_->poll();
        std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  mock().set_engine_thread(false);
  EXPECT_GT(by_kernel(), 0u);
  for (const told_job& job : jobs) {
    EXPECT_EQ(job.calls, 1);
    EXPECT_EQ(job.error, "");
  }
  for (std::size_t t = 0; t < THREADS; ++t)
    EXPECT_EQ(read(to[t], 128 * KIB), pattern(128 * KIB, static_cast<unsigned>(t)));
}

}  // namespace
}  // namespace lci::cuda
