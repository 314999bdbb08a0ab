#include "backends/cuda/atomic_jobs.hpp"

#include <array>
#include <cstring>
#include <deque>
#include <thread>

#include "lci/wqe/apply_change.hpp"
#include "tests/unit/cuda/resident_fixture.hpp"
#include "tests/unit/cuda/told_words.hpp"

namespace lci::cuda {
namespace {

class atomic_jobs_test : public accelerator_test {
 protected:
  atomic_jobs_test() {
    options_.atomic_image = STAND_IN;
    make();
    memory_ = static_cast<std::byte*>(gpu_memory(4096));
  }
  ~atomic_jobs_test() override {
    mock().run_all();
    acc_.reset();
    mock().free(memory_);
  }
  void fill(told_atomic& job, std::size_t offset, const wqe::word_change& change) {
    job.at = memory_ + offset;
    job.device = 0;
    job.change = change;
    job.calls = 0;
  }
  std::string_view add(told_atomic& job, std::size_t offset, std::uint64_t value,
                       std::uint32_t size = 8) {
    fill(job, offset, {value, 0, 0, 0, wqe::word_change::ADD, size});
    return acc_->atomic(job);
  }
  template <class T = std::uint64_t>
  T& word(std::size_t offset) {
    return *reinterpret_cast<T*>(mock().contents(memory_) + offset);
  }
  std::size_t launches() { return mock().count("cuLaunchKernel"); }

  std::byte* memory_;
};

TEST_F(atomic_jobs_test, add__every_form_answers_what_was_there) {
  using wqe::opcode;
  constexpr std::uint64_t ALL = ~std::uint64_t{0};
  told_atomic job;
  const auto change = [&](opcode op, const wqe::atomic_operands& with, std::uint64_t before) {
    word(8) = before;
    fill(job, 8, wqe::change_of(op, with));
    EXPECT_EQ(acc_->atomic(job), "");
    finish(1);
    EXPECT_EQ(job.error, "");
    EXPECT_EQ(job.old, with.size == 4 ? before & 0xffffffff : before);
    return word(8);
  };
  EXPECT_EQ(change(opcode::atomic_fa, {3, 0, 0, 0, 8}, 5), 8u);
  EXPECT_EQ(change(opcode::atomic_cs, {9, 5, 0, 0, 8}, 5), 9u);
  EXPECT_EQ(change(opcode::atomic_cs, {9, 4, 0, 0, 8}, 5), 5u);
  EXPECT_EQ(change(opcode::atomic_masked_cs, {9, 0, ALL, 0, 8}, 5), 9u);
  EXPECT_EQ(change(opcode::atomic_masked_fa, {0x101, 0, 0, 0x8080, 8}, 0x10ff), 0x1100u);
  constexpr std::uint64_t HIGH = std::uint64_t{7} << 32;
  EXPECT_EQ(change(opcode::atomic_masked_fa, {1, 0, 0, 0, 4}, HIGH | 0xffffffff), HIGH);
}

TEST_F(atomic_jobs_test, add__what_waits_at_the_same_time_goes_in_one_launch) {
  word(0) = 0;
  word(8) = 0;
  std::deque<told_atomic> jobs(atomic_layout::MOST + 100);
  const std::size_t before = launches();
  for (std::size_t i = 0; i < jobs.size(); ++i)
    EXPECT_EQ(add(jobs[i], i % 2 * 8, 1, i % 4 == 1 ? 4 : 8), "");
  // Two went alone; the others met no free launch.
  EXPECT_EQ(launches() - before, atomic_jobs::LAUNCHES);
  finish(jobs.size());
  EXPECT_EQ(launches() - before, atomic_jobs::LAUNCHES + 2);
  EXPECT_EQ(word(0) + word(8), jobs.size());
  std::vector<bool> seen(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(jobs[i].calls, 1);
    EXPECT_EQ(jobs[i].error, "");
    const std::size_t at = 2 * jobs[i].old + i % 2;
    ASSERT_LT(at, seen.size());
    EXPECT_FALSE(seen[at]);
    seen[at] = true;
  }
}

TEST_F(atomic_jobs_test, add__copies_before_are_seen_with_it) {
  std::vector<std::byte> from(64, std::byte{7});
  told_job copied;
  told_atomic signal;
  word(128) = 0;
  copy(copied, mem::copy_way::to_device, memory_, from.data(), from.size());
  finish(1);
  EXPECT_EQ(add(signal, 128, 1), "");
  finish(1);
  EXPECT_EQ(word(128), 1u);
  EXPECT_EQ(mock().contents(memory_)[63], std::byte{7});
}

TEST_F(atomic_jobs_test, add__without_device_code_says_how_to_get_it) {
  options_.atomic_image = {};
  make();
  told_atomic job;
  EXPECT_TRUE(has(std::string(add(job, 0, 1)), "-DLCI_USE_CUDA=ON"));
  EXPECT_THROW(acc_->prepare_atomics(0), backend_error);
  EXPECT_EQ(job.calls, 0);
  EXPECT_EQ(acc_->poll(), 0u);
  job.device = 9;
  EXPECT_TRUE(has(std::string(acc_->atomic(job)), "no such GPU"));
  EXPECT_THROW(acc_->prepare_atomics(9), backend_error);
}

TEST_F(atomic_jobs_test, make_ready__every_call_that_fails_is_named_and_leaves_nothing) {
  for (const char* call : {"cuModuleLoadData", "cuModuleGetFunction", "cuFuncGetAttribute",
                           "cuStreamCreate", "cuMemHostAlloc", "cuMemHostGetDevicePointer"}) {
    mock().fail_nth(call, 1, abi::result::out_of_memory);
    try {
      acc_->prepare_atomics(0);
      ADD_FAILURE() << call;
    } catch (const backend_error& error) {
      EXPECT_TRUE(has(error.what(), call)) << error.what();
    }
  }
  acc_->prepare_atomics(0);
  acc_->prepare_atomics(0);
  const std::size_t loaded = mock().count("cuModuleLoadData");
  told_atomic job;
  EXPECT_EQ(add(job, 0, 1), "");
  finish(1);
  EXPECT_EQ(mock().count("cuModuleLoadData"), loaded);
}

TEST_F(atomic_jobs_test, add__nothing_waits_for_the_gpu) {
  acc_->prepare_atomics(0);
  mock().watch_blocking(true);
  told_atomic job;
  EXPECT_EQ(add(job, 0, 1), "");
  finish(1);
  EXPECT_EQ(mock().blocking_calls(), std::vector<std::string>{});
  mock().watch_blocking(false);
}

TEST_F(atomic_jobs_test, launch__that_is_refused_ends_its_jobs_and_no_other) {
  told_atomic first, second;
  acc_->prepare_atomics(0);
  mock().fail_nth("cuLaunchKernel", 1, abi::result::out_of_memory);
  EXPECT_EQ(add(first, 0, 1), "");
  EXPECT_EQ(first.calls, 0) << "not from within";
  EXPECT_EQ(add(second, 0, 1), "");
  finish(2);
  EXPECT_TRUE(has(first.error, "cuLaunchKernel")) << first.error;
  EXPECT_EQ(second.error, "");
}

TEST_F(atomic_jobs_test, examine__a_gpu_that_breaks_ends_all_and_later_ones) {
  std::deque<told_atomic> jobs(5);
  acc_->prepare_atomics(0);
  mock().break_next_operation(abi::result::illegal_address);
  for (told_atomic& job : jobs) EXPECT_EQ(add(job, 0, 1), "");
  std::size_t told = 0;
  for (int i = 0; i < 100000 && told < jobs.size(); ++i) {
    mock().advance(1);
    told += acc_->poll();
  }
  EXPECT_EQ(told, jobs.size());
  for (const told_atomic& job : jobs) {
    EXPECT_EQ(job.calls, 1);
    EXPECT_NE(job.error, "");
  }
  told_atomic late;
  EXPECT_EQ(add(late, 0, 1), "");
  EXPECT_EQ(acc_->poll(), 1u);
  EXPECT_NE(late.error, "");
}

TEST_F(atomic_jobs_test, add__many_threads) {
  constexpr int THREADS = 4, EACH = 500;
  word(0) = 0;
  mock().set_engine_thread(true);
  std::deque<told_atomic> jobs(THREADS * EACH);
  std::atomic<std::size_t> told{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < THREADS; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < EACH; ++i) {
        EXPECT_EQ(add(jobs[static_cast<std::size_t>(t * EACH + i)], 0, 1), "");
        told += acc_->poll();
      }
      while (told < jobs.size()) {
        told += acc_->poll();
        std::this_thread::yield();
      }
    });
  for (std::thread& one : threads) one.join();
  mock().set_engine_thread(false);
  EXPECT_EQ(word(0), jobs.size());
  for (const told_atomic& job : jobs) {
    EXPECT_EQ(job.calls, 1);
    EXPECT_EQ(job.error, "");
  }
}

}  // namespace
}  // namespace lci::cuda
