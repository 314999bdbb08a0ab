// Atomic operations and deliveries on a real GPU, by the launched kernel and by the resident one.
// What each costs is printed. Skipped with the reason where the library has no device code.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <thread>

#include "backends/cuda/accelerator.hpp"
#include "lci/wqe/apply_change.hpp"
#include "tests/accelerator/real_gpu.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/sizes.hpp"
#include "tests/unit/cuda/told_words.hpp"

namespace lci::cuda {
namespace {

using kind = real_gpu::kind;
using lci::test::MIB;
using signal = mem::delivery_job::signal;

class atomics_on_gpu : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (atomic_image().empty()) GTEST_SKIP() << "no device code: LCI_USE_CUDA is off";
    acc_.keep_resident(GetParam());
    acc_.prepare_atomics(gpu_.ordinal());
    memory_ = static_cast<std::byte*>(gpu_.allocate(kind::device, BYTES));
    gpu_.write(memory_, std::vector<std::byte>(BYTES));
  }
  void TearDown() override {
    acc_.tidy();
    if (memory_ != nullptr) gpu_.free(kind::device, memory_, BYTES);
  }
  template <class Job>
  void finish(const Job& job) {
    for (int looks = 0; job.calls == 0; ++looks)
      if (acc_.poll() == 0 && looks > 100) std::this_thread::yield();
    EXPECT_EQ(job.error, "");
  }
  void change(told_atomic& job, std::size_t offset, const wqe::word_change& how) {
    job.at = memory_ + offset;
    job.device = gpu_.ordinal();
    job.change = how;
    job.calls = 0;
    ASSERT_EQ(acc_.atomic(job), "");
  }
  bool deliver(told_delivery& job, std::size_t to, const std::byte* from, std::size_t size,
               signal what, std::uint64_t value) {
    job.to = memory_ + to;
    job.from = from;
    job.size = size;
    job.device = gpu_.ordinal();
    job.what = what;
    job.word = reinterpret_cast<std::uint64_t*>(memory_ + WORD);
    job.value = value;
    job.calls = 0;
    return acc_.deliver(job);
  }
  std::uint64_t word(std::size_t offset) {
    const auto bytes = gpu_.read(memory_ + offset, 8);
    std::uint64_t value;
    std::memcpy(&value, bytes.data(), 8);
    return value;
  }
  static void print(const char* what, std::vector<double>& us) {
    std::sort(us.begin(), us.end());
    std::printf("%s, resident blocks %d: median %.2f us, worst %.2f\n", what, GetParam(),
                us[us.size() / 2], us.back());
  }

  static constexpr std::size_t BYTES = 4096, WORD = 2048;
  static constexpr int COSTS = 500;
  real_gpu& gpu_ = real_gpu::get();
  pointer_cache pointers_{gpu_.d};
  mem::arena arena_{64 * MIB};
  accelerator acc_{gpu_.d, pointers_, arena_};
  std::byte* memory_ = nullptr;
};

TEST_P(atomics_on_gpu, random_changes__as_by_a_processor) {
  auto random = test::seeded(1);
  alignas(8) std::uint64_t mirror = 0;
  told_atomic job;
  for (int i = 0; i < 500; ++i) {
    wqe::word_change how;
    how.value = random();
    how.compare = i % 3 == 0 ? random() : mirror;
    how.swap_mask = i % 2 == 0 ? ~std::uint64_t{0} : random();
    how.compare_mask = i % 5 < 2 ? 0 : i % 5 == 2 ? random() & random() : ~std::uint64_t{0};
    how.what = i % 4 < 2 ? wqe::word_change::ADD : wqe::word_change::SWAP;
    how.size = i % 7 < 3 ? 4 : 8;
    change(job, WORD, how);
    finish(job);
    ASSERT_EQ(job.old, wqe::apply(how, static_cast<void*>(&mirror))) << i;
  }
  EXPECT_EQ(word(WORD), mirror);
}

TEST_P(atomics_on_gpu, many__sums_are_exact) {
  constexpr int THREADS = 3, EACH = 400;
  std::deque<told_atomic> jobs(THREADS * EACH);
  std::atomic<int> ended{0};
  for (told_atomic& job : jobs) job.then = [&] { ended.fetch_add(1); };
  std::vector<std::thread> threads;
  for (int t = 0; t < THREADS; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < EACH; ++i) {
        change(jobs[static_cast<std::size_t>(t * EACH + i)], i % 2 == 0 ? WORD : WORD + 8,
               {1, 0, 0, 0, wqe::word_change::ADD, i % 2 == 0 ? 8u : 4u});
        acc_.poll();
      }
      while (ended != THREADS * EACH)
        if (acc_.poll() == 0) std::this_thread::yield();
    });
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(word(WORD), THREADS * EACH / 2u);
  EXPECT_EQ(word(WORD + 8), THREADS * EACH / 2u);
  std::vector<bool> seen(THREADS * EACH / 2);
  for (std::size_t i = 0; i < jobs.size(); i += 2) {
    EXPECT_EQ(jobs[i].error, "");
    ASSERT_LT(jobs[i].old, seen.size());
    EXPECT_FALSE(seen[jobs[i].old]) << "two were told the same";
    seen[jobs[i].old] = true;
  }
}

TEST_P(atomics_on_gpu, one_at_a_time__costs) {
  std::vector<double> us;
  told_atomic job;
  for (int i = 0; i < COSTS; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    change(job, WORD, {1, 0, 0, 0, wqe::word_change::ADD, 8});
    finish(job);
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
                     .count());
  }
  print("fetch and add", us);
  EXPECT_EQ(word(WORD), static_cast<std::uint64_t>(COSTS));
}

TEST_P(atomics_on_gpu, deliveries__of_every_size_with_their_signal) {
  const auto bytes = real_gpu::pattern(256, 7);
  std::vector<double> us;
  std::uint64_t sum = 0;
  told_delivery job;
  // A kernel that has ended is started again by the next poll.
  int tries = 0;
  for (int i = 0; i < COSTS; ++i) {
    const std::size_t size = i % 2 == 0 ? 8 : static_cast<std::size_t>(i) % 221;
    const std::size_t to = 16 + static_cast<std::size_t>(i) % 17;
    const auto begin = std::chrono::steady_clock::now();
    while (!deliver(job, to, bytes.data(), size, signal::add, 1)) {
      if (GetParam() == 0) return;
      ASSERT_LT(++tries, 10'000'000);
      acc_.poll();
      std::this_thread::yield();
    }
    finish(job);
    ++sum;
    if (size == 8)
      us.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
              .count());
    if (i % 50 != 1) continue;
    const auto there = gpu_.read(memory_ + to, size + 1);
    EXPECT_EQ(std::memcmp(there.data(), bytes.data(), size), 0) << size;
  }
  EXPECT_EQ(word(WORD), sum);
  std::printf("%d looks found no kernel\n", tries);
  print("8 bytes and a signal", us);
}

INSTANTIATE_TEST_SUITE_P(blocks, atomics_on_gpu, testing::Values(0, 4));

}  // namespace
}  // namespace lci::cuda
