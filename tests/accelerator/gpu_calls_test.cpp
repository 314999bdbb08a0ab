// Calls of kernels on a GPU: over memory that they reach, and over requests that a card in software
// does, which this thread drives.
#include "tests/accelerator/gpu_calls.hpp"

namespace lci::test {
namespace {

// Each caller's piece at a place of its own; nothing else is written.
TEST_F(gpu_calls, put_and_get__pieces_of_every_alignment_in_every_scope) {
  for (const way how : {way::direct, way::requests}) {
    make();
    for (const char* scope : SCOPES) {
      for (const std::uint64_t size : {1, 4, 8, 100, 221, 4096}) {
        for (const std::uint64_t skew : {0, 1, 4, 8}) {
          const std::uint64_t stride = (size + 63) / 32 * 32, n = callers(scope);
          const std::vector<std::byte> from =
              real_gpu::pattern(MEMORY, static_cast<unsigned>(size));
          std::vector<std::byte> expected = real_gpu::pattern(MEMORY, 77);
          fill(0, how, from);
          fill(1, how, expected);
          for (std::uint64_t i = 0; i < n; ++i)
            std::memcpy(&expected[skew + i * stride], &from[i * stride], size);
          call_task task;
          task.endpoint = ends_->endpoint(0);
          task.to = place(1, skew, how);
          task.from = own(0, 0, how);
          task.size = size;
          task.stride = stride;
          run(scope, 2, 128, task);
          ASSERT_EQ(contents(1, how), expected) << scope << " put " << size << " at " << skew;
          task.kind = call_kind::get;
          task.to = own(0, 0, how);
          task.from = place(1, skew, how);
          std::vector<std::byte> back = real_gpu::pattern(MEMORY, 5);
          fill(0, how, back);
          for (std::uint64_t i = 0; i < n; ++i)
            std::memcpy(&back[i * stride], &expected[skew + i * stride], size);
          run(scope, 2, 128, task);
          ASSERT_EQ(contents(0, how), back) << scope << " get " << size << " at " << skew;
        }
      }
    }
  }
}

TEST_F(gpu_calls, atomics__each_caller_once_in_every_scope) {
  for (const way how : {way::direct, way::requests}) {
    make();
    for (const char* scope : SCOPES) {
      const std::uint64_t n = callers(scope), each = 5;
      fill(1, how, std::vector<std::byte>(MEMORY));
      // In the GPU's memory: its atomics on host memory are none for processors.
      auto* const sum = static_cast<std::uint64_t*>(memory_->of_gpu(sizeof(std::uint64_t)));
      call_task task;
      task.endpoint = ends_->endpoint(0);
      task.word = place(1, 64, how);
      task.sum = sum;
      task.each = each;
      for (const call_kind kind : {call_kind::add, call_kind::fetch_add, call_kind::compare_swap}) {
        task.kind = kind;
        run(scope, 2, 128, task);
      }
      EXPECT_EQ(word(1, 64, how), 3 * n * each) << scope;
      // Old values of the second pass: n * each and those after it.
      const std::uint64_t first = n * each, last = 2 * n * each - 1;
      EXPECT_EQ(memory_->read(sum), (first + last) * (n * each) / 2) << scope;
      // Of all numbers that were swapped in, one is left, and the others came back.
      task.kind = call_kind::swap_4;
      task.word = place(1, 128, how);
      task.each = 1;
      const std::uint64_t zero = 0;
      memory_->write(sum, &zero, sizeof(zero));
      run(scope, 2, 128, task);
      EXPECT_EQ(memory_->read(sum) + word(1, 128, how), n * (n + 1) / 2) << scope;
    }
  }
}

TEST_F(gpu_calls, put_signal__two_kernels_take_turns) {
  for (const way how : {way::direct, way::requests}) {
    make();
    for (const unsigned threads : {1u, 32u, 1024u}) {
      for (const std::uint64_t size : {0, 8, 1000}) {
        for (int i = 0; i < 2; ++i) fill(i, how, std::vector<std::byte>(MEMORY));
        turns_task task;
        task.answers = memory_->pinned_array<status>(2);
        task.times = memory_->pinned_array<std::uint64_t>(2);
        task.signal_offset = 4096;
        task.target = 2048;
        task.size = size;
        task.rounds = 200;
        for (int i = 0; i < 2; ++i) {
          task.endpoints[i] = ends_->endpoint(i);
          task.memory[i] = place(i, 0, how).key;
          task.own[i] = own(i, 0, how).key;
          task.words[i] = reinterpret_cast<std::uint64_t*>(bytes(i, how) + 4096);
        }
        task.answers[0] = task.answers[1] = status::no_gpu;
        start(threads == 1    ? "lci_test_turns_thread"
              : threads == 32 ? "lci_test_turns_warp"
                              : "lci_test_turns_block",
              2, threads, task);
        drive();
        for (int i = 0; i < 2; ++i)
          ASSERT_EQ(task.answers[i], status::ok) << threads << " " << size;
        EXPECT_EQ(word(0, 4096, how), 200u);
        EXPECT_EQ(word(1, 4096, how), 200u);
      }
    }
  }
}

TEST_F(gpu_calls, put_signal__a_hundred_thousand_threads) {
  for (const way how : {way::direct, way::requests}) {
    make();
    fill(0, how, real_gpu::pattern(MEMORY, 1));
    fill(1, how, std::vector<std::byte>(MEMORY));
    call_task task;
    task.endpoint = ends_->endpoint(0);
    task.kind = call_kind::put_signal;
    task.to = place(1, 64, how);
    task.from = own(0, 64, how);
    task.word = place(1, 0, how);
    task.size = 32;
    task.stride = 32;
    run("thread", 800, 128, task);
    EXPECT_EQ(word(1, 0, how), 102400u);
    const auto sent = contents(0, how), got = contents(1, how);
    EXPECT_EQ(std::memcmp(&sent[64], &got[64], 102400 * 32), 0);
  }
}

TEST_F(gpu_calls, refusals__nothing_is_written) {
  make();
  fill(1, way::direct, real_gpu::pattern(MEMORY, 3));
  call_task task;
  task.endpoint = ends_->endpoint(0);
  task.to = place(1, MEMORY - 4, way::direct);
  task.from = own(0, 0, way::direct);
  task.size = 8;
  for (const char* scope : SCOPES) run(scope, 2, 64, task, status::out_of_range);
  task.rank = 2;
  for (const char* scope : SCOPES) run(scope, 2, 64, task, status::bad_rank);
  task.rank = 0;
  for (const char* scope : SCOPES) run(scope, 2, 64, task, status::bad_rank);
  task.rank = 1;
  task.to = {};
  for (const char* scope : SCOPES) run(scope, 2, 64, task, status::bad_key);
  task.to = place(1, 0, way::direct);
  task.endpoint.generation &= ~gpu::OF_GPU;
  for (const char* scope : SCOPES) run(scope, 2, 64, task, status::wrong_gpu);
  task.endpoint = ends_->endpoint(0);
  ends_->free_endpoint(0);
  for (const char* scope : SCOPES) run(scope, 2, 64, task, status::bad_endpoint);
  EXPECT_EQ(contents(1, way::direct), real_gpu::pattern(MEMORY, 3));
}

// By the flag, by the limit, and by the end of the peer, which the host says while the kernel
// waits.
TEST_F(gpu_calls, waits__end) {
  gpu_endpoint_options options;
  options.words_in_gpu = false;
  for (const char* scope : SCOPES) {
    for (const status why : {status::aborted, status::peer_lost, status::timed_out}) {
      options.limit_ns = why == status::timed_out ? 1'000'000 : 0;
      make(options);
      call_task task;
      task.endpoint = ends_->endpoint(0);
      task.kind = call_kind::wait;
      task.own_word = reinterpret_cast<std::uint64_t*>(in_gpu_[0]);
      task.size = 1;
      task.answers = memory_->pinned_array<status>(256);
      std::fill_n(task.answers, 256, status::no_gpu);
      start((std::string("lci_test_calls_") + scope).c_str(), 2, 128, task);
      std::uint32_t* const word =
          why == status::aborted ? ends_->abort_word(0) : ends_->ended_word(0) + 1 + 1;
      if (why != status::timed_out)
        wqe::word_at<std::uint32_t>(word).store(1, std::memory_order_relaxed);
      drive();
      for (int i = 0; i < 256; ++i)
        ASSERT_EQ(task.answers[i], why) << scope << ": " << text_of(task.answers[i]);
    }
  }
}

// A queue that is full, with nobody who empties it.
TEST_F(gpu_calls, full_queue__ends_at_the_limit) {
  gpu_endpoint_options options;
  options.blocks = 16;
  options.limit_ns = 1'000'000;
  make(options);
  call_task task;
  task.endpoint = ends_->endpoint(0);
  task.to = place(1, 0, way::requests);
  task.from = own(0, 0, way::requests);
  task.size = 8;
  task.each = 100;
  task.answers = memory_->pinned_array<status>(256);
  start("lci_test_calls_thread", 2, 128, task);
  real_gpu::get().synchronize();
  for (int i = 0; i < 256; ++i)
    EXPECT_TRUE(task.answers[i] == status::timed_out || task.answers[i] == status::dead)
        << text_of(task.answers[i]);
}

}  // namespace
}  // namespace lci::test
