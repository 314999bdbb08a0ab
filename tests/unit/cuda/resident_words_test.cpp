// Deliveries and atomic operations by the resident kernel, and what becomes of those that miss it.
#include <thread>

#include "lci/wqe/apply_change.hpp"
#include "tests/unit/cuda/resident_fixture.hpp"
#include "tests/unit/cuda/told_words.hpp"

namespace lci::cuda {
namespace {

using signal = mem::delivery_job::signal;

class resident_words_test : public resident_test {
 protected:
  explicit resident_words_test(const test::mock_config& config = {}) : resident_test(config) {
    options_.atomic_image = STAND_IN;
    remake();
    memory_ = at(gpu_memory(4096));
    acc_->prepare_atomics(0);
    std::memset(mock().contents(memory_), 0, 4096);
  }
  bool deliver(told_delivery& job, std::size_t to, const void* from, std::size_t size,
               signal what = signal::none, std::uint64_t value = 0) {
    job.to = memory_ + to;
    job.from = static_cast<const std::byte*>(from);
    job.size = size;
    job.what = what;
    job.word = reinterpret_cast<std::uint64_t*>(memory_ + WORD);
    job.value = value;
    return acc_->deliver(job);
  }
  std::string_view change(told_atomic& job, const wqe::word_change& how) {
    job.at = memory_ + WORD;
    job.change = how;
    return acc_->atomic(job);
  }
  // Jobs that miss the kernel leave it with more than one word.
  template <class... Jobs>
  void finish_all(const Jobs&... jobs) {
    for (int i = 0; i < 100000 && (... || (jobs.calls == 0)); ++i) {
      acc_->poll();
      mock().advance(1);
    }
  }
  std::uint64_t& word() {
    return *reinterpret_cast<std::uint64_t*>(mock().contents(memory_) + WORD);
  }

  static constexpr std::size_t WORD = 2048;
  std::byte* memory_;
};

TEST_F(resident_words_test, take__a_delivery_of_every_size_and_place) {
  const auto bytes = pattern(256, 3);
  for (std::size_t size = 0; size <= mem::delivery_job::MOST; ++size) {
    start_kernel();
    mock().forget_counts();
    const std::size_t to = 256 + size % 17;
    std::memset(mock().contents(memory_), 0, 1024);
    std::vector<std::byte> source(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    told_delivery job;
    word() = 5;
    const signal what = size == 0 || size % 3 == 1 ? signal::add
                        : size % 3 == 2            ? signal::set
                                                   : signal::none;
    ASSERT_TRUE(deliver(job, to, source.data(), size, what, 7));
    std::fill(source.begin(), source.end(), std::byte{0xff});  // it was taken
    finish(1);
    ASSERT_EQ(job.calls, 1);
    ASSERT_EQ(job.error, "");
    ASSERT_EQ(by_kernel(), 1u) << "one command";
    ASSERT_EQ(by_engine(), 0u);
    ASSERT_EQ(word(), what == signal::add ? 12u : what == signal::set ? 7u : 5u);
    const std::byte* const there = mock().contents(memory_);
    ASSERT_EQ(std::memcmp(there + to, bytes.data(), size), 0) << size;
    ASSERT_EQ(there[to - 1], std::byte{0});
    ASSERT_EQ(there[to + size], std::byte{0});
  }
}

// As many values as there are slots: a command each, and what the kernel leaves goes by the engine.
TEST_F(resident_words_test, take__values_beside_each_other) {
  std::size_t missed = 0;
  for (unsigned seed = 1; seed <= 50; ++seed) {
    mock().set_seed(seed);
    start_kernel();
    std::memset(mock().contents(memory_), 0, 1024);
    mock().forget_counts();
    std::deque<told_delivery> jobs(resident_layout::SLOTS);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const std::uint64_t value = i + 1;
      ASSERT_TRUE(deliver(jobs[i], 8 * i, &value, 8)) << i;
    }
    told_delivery one_more;
    EXPECT_FALSE(deliver(one_more, 1024, &seed, 4)) << "all slots are taken";
    if (seed % 2 == 0) acc_->tidy();  // it is to end
    for (const told_delivery& one : jobs) {
      finish_all(one);
      ASSERT_TRUE(one.calls == 1 && one.error.empty());
    }
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      std::uint64_t there = 0;
      std::memcpy(&there, mock().contents(memory_) + 8 * i, sizeof(there));
      ASSERT_EQ(there, i + 1) << seed;
    }
    missed += by_kernel() < jobs.size();
    EXPECT_TRUE(by_kernel() == jobs.size() || seed % 2 == 0) << seed;
  }
  EXPECT_GT(missed, 5u) << "the kernel has never ended without them";
}

TEST_F(resident_words_test, take__what_it_is_not_for) {
  start_kernel();
  const std::vector<std::byte> bytes(256);
  told_delivery job;
  EXPECT_FALSE(deliver(job, 0, bytes.data(), mem::delivery_job::MOST + 1, signal::add, 1));
  EXPECT_FALSE(deliver(job, 0, bytes.data(), 0));
  job.device = 7;
  EXPECT_FALSE(deliver(job, 0, bytes.data(), 8));
  job.device = 0;
  job.to = memory_;
  job.from = bytes.data();
  job.size = 8;
  job.word = reinterpret_cast<std::uint64_t*>(memory_ + 4);
  EXPECT_FALSE(acc_->deliver(job));
  EXPECT_EQ(job.calls, 0);
}

TEST_F(resident_words_test, take__without_the_kernel_is_refused_and_starts_it) {
  mock().run_all();
  told_delivery job;
  const std::uint64_t value = 9;
  EXPECT_FALSE(deliver(job, 0, &value, 8));
  bool is_taken = false;
  for (int i = 0; i < 100 && !is_taken; ++i) {
    acc_->poll();
    mock().advance(20);
    is_taken = deliver(job, 0, &value, 8, signal::add, 1);
  }
  EXPECT_TRUE(is_taken);
  finish(1);
  EXPECT_EQ(word(), 1u);
  acc_->keep_resident(0);
}

TEST_F(resident_words_test, take__atomic_operations_of_all_forms) {
  using wqe::opcode;
  constexpr std::uint64_t ALL = ~std::uint64_t{0};
  const auto check = [&](opcode op, const wqe::atomic_operands& with, std::uint64_t before,
                         std::uint64_t after, bool is_quick = true) {
    start_kernel();
    mock().forget_counts();
    told_atomic job;
    word() = before;
    EXPECT_EQ(change(job, wqe::change_of(op, with)), "");
    finish(1);
    EXPECT_EQ(job.error, "");
    EXPECT_EQ(job.old, with.size == 4 ? before & 0xffffffff : before);
    EXPECT_EQ(word(), after);
    EXPECT_EQ(by_kernel(), is_quick ? 1u : 0u);
  };
  constexpr std::uint64_t HIGH = std::uint64_t{7} << 32;
  check(opcode::atomic_fa, {3, 0, 0, 0, 8}, 5, 8);
  check(opcode::atomic_cs, {9, 5, 0, 0, 8}, 5, 9);
  check(opcode::atomic_cs, {9, 4, 0, 0, 8}, 5, 5);
  check(opcode::atomic_masked_cs, {9, 0, ALL, 0, 8}, 5, 9);
  check(opcode::atomic_masked_fa, {1, 0, 0, 0, 4}, HIGH | 0xffffffff, HIGH);
  check(opcode::atomic_masked_cs, {9, 5, 0xffffffff, 0xffffffff, 4}, HIGH | 5, HIGH | 9);
  check(opcode::atomic_masked_cs, {9, 0, 0xffffffff, 0, 4}, HIGH | 5, HIGH | 9);
  check(opcode::atomic_masked_fa, {0x101, 0, 0, 0x8080, 8}, 0x10ff, 0x1100, false);
  check(opcode::atomic_masked_cs, {0xff00, 0x34, 0xff00, 0xff, 8}, 0x1234, 0xff34, false);
  check(opcode::atomic_masked_cs, {9, 0, 0xff, 0, 8}, 0x105, 0x109, false);
}

// Whatever the order of the last looks and the posts: each is performed once.
TEST_F(resident_words_test, end__with_words_on_their_way_loses_and_doubles_nothing) {
  std::size_t missed = 0, taken = 0;
  const auto bytes = pattern(100, 1);
  for (unsigned seed = 1; seed <= 200; ++seed) {
    mock().set_seed(seed);
    start_kernel();
    word() = 0;
    std::memset(mock().contents(memory_), 0, 1024);
    mock().forget_counts();
    acc_->tidy();  // it is to end
    mock().advance(seed % 12);
    told_delivery data, only;
    told_atomic add;
    const bool is_taken =
        deliver(data, 16, bytes.data(), seed % 2 == 0 ? 100 : 8, signal::add, 1) &&
        deliver(only, 0, nullptr, 0, signal::add, 10);
    EXPECT_EQ(change(add, {100, 0, 0, 0, wqe::word_change::ADD, 8}), "");
    if (!is_taken) {
      finish_all(add);
      continue;
    }
    ++taken;
    finish_all(data, only, add);
    ASSERT_EQ(data.error + only.error + add.error, "");
    for (int i = 0; i < 10; ++i) acc_->poll();
    ASSERT_EQ(word(), 111u) << seed;
    ASSERT_TRUE(data.calls == 1 && only.calls == 1 && add.calls == 1);
    ASSERT_EQ(std::memcmp(mock().contents(memory_) + 16, bytes.data(), data.size), 0);
    missed += by_kernel() == 0;
  }
  EXPECT_GT(taken, 50u);
  EXPECT_GT(missed, 5u) << "the kernel has never ended without them";
}

TEST_F(resident_words_test, error__a_kernel_that_dies_ends_what_it_has_with_the_error) {
  start_kernel();
  told_delivery data;
  told_atomic add;
  const std::uint64_t value = 3;
  ASSERT_TRUE(deliver(data, 0, &value, 8, signal::set, 1));
  EXPECT_EQ(change(add, {1, 0, 0, 0, wqe::word_change::ADD, 8}), "");
  mock().break_next_operation(abi::result::illegal_address);
  testing::internal::CaptureStderr();
  finish(2);
  testing::internal::GetCapturedStderr();
  EXPECT_TRUE(has(data.error, "illegal memory access")) << data.error;
  EXPECT_TRUE(has(add.error, "illegal memory access")) << add.error;
  EXPECT_EQ(word(), 0u);
}

TEST_F(resident_words_test, threads__sums_are_exact_while_the_kernel_comes_and_goes) {
  constexpr int THREADS = 3, EACH = 400;
  mock().set_engine_thread(true);
  std::deque<told_delivery> deliveries(THREADS * EACH);
  std::deque<told_atomic> atomics(THREADS * EACH);
  std::atomic<std::size_t> posted{0}, ended{0};
  const auto count = [&] { ended.fetch_add(1); };
  for (told_delivery& one : deliveries) one.then = count;
  for (told_atomic& one : atomics) one.then = count;
  std::vector<std::thread> threads;
  for (int t = 0; t < THREADS; ++t)
    threads.emplace_back([&, t] {
      const std::uint64_t value = 4;
      for (int i = 0; i < EACH; ++i) {
        const auto n = static_cast<std::size_t>(t * EACH + i);
        if (deliver(deliveries[n], 8 * static_cast<std::size_t>(t), &value, 8, signal::add, 1))
          posted.fetch_add(1);
        EXPECT_EQ(change(atomics[n], {1, 0, 0, 0, wqe::word_change::ADD, 8}), "");
        posted.fetch_add(1);
        acc_->poll();
        if (i % 100 == 50) acc_->tidy();
      }
      while (ended < posted) {
        acc_->poll();
        std::this_thread::yield();
      }
    });
  for (std::thread& one : threads) one.join();
  while (ended < posted) acc_->poll();
  mock().set_engine_thread(false);
  EXPECT_EQ(word(), posted);
}

}  // namespace
}  // namespace lci::cuda
