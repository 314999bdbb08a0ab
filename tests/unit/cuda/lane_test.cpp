// A lane as its copier uses it (what fails in a stream), by itself, and with events for words.
#include "backends/cuda/lane.hpp"

#include "tests/unit/cuda/copier_fixture.hpp"

namespace lci::cuda {
namespace {

TEST_F(copier_test, post__first_call_fails__nothing_was_begun) {
  void* const a = gpu_memory(4 * KIB);
  mock().fail_nth("cuMemcpyAsync", 1, abi::result::out_of_memory);
  const copy_answer answer = post(direction::to_gpu, a, a, 8);
  EXPECT_EQ(answer.code, errorcode_t::fatal);
  EXPECT_EQ(answer.error.kind(), fault::no_memory);
  EXPECT_TRUE(copier_->is_idle());
  EXPECT_EQ(post(direction::to_gpu, a, a, 8).code, errorcode_t::posted);  // the lane is in order
  finish();
  expect_ended_with(fault::none);
}

TEST_F(copier_test, post__mark_or_flag_fails__completes_with_the_error_once_the_gpu_is_through) {
  for (const int n : {1, 2}) {  // the flag, the mark
    make();
    done_.calls = 0;
    void* const a = gpu_memory(4 * KIB);
    auto* const flag = mock().allocate(mocked::pinned, 4 * KIB);
    mock().fail_nth("cuStreamWriteValue64", n, abi::result::out_of_memory);
    ASSERT_EQ(post(direction::to_gpu, a, a, 8, {as_device(flag), 1, 8}).code, errorcode_t::posted);
    copier_->poll();
    EXPECT_EQ(done_.calls, 0);  // the copy still reads the buffer
    finish();
    expect_ended_with(fault::no_memory);
    EXPECT_EQ(post(direction::to_gpu, a, a, 8).code, errorcode_t::fatal);
    EXPECT_EQ(post(direction::to_host, a, a, 8).code, errorcode_t::posted);  // another lane
    finish();
  }
}

TEST_F(copier_test, gpu_error__all_that_was_under_way_ends_with_it) {
  void* const a = gpu_memory(MIB);
  const auto in = pattern(MIB, 11);
  for (int i = 0; i < 5; ++i) post(direction::to_gpu, a, in.data(), 64);
  for (int i = 0; i < 3; ++i) post(direction::to_gpu, a, in.data(), MIB);
  mock().break_next_operation(abi::result::illegal_address);
  finish();
  EXPECT_EQ(done_.calls, 8);
  EXPECT_EQ(done_.last.kind(), fault::broken);
  EXPECT_EQ(post(direction::to_gpu, a, in.data(), 64).error.kind(), fault::broken);
}

TEST_F(copier_test, gpu_error__what_ended_before_it_ended_well) {
  void* const a = gpu_memory(4 * KIB);
  recorder first;
  const copy one{as_device(a), as_device(a), 8};
  copier_->post(direction::to_gpu, std::span(&one, 1), {}, &first);
  mock().run_all();
  post(direction::to_gpu, a, a, 8);
  mock().break_next_operation(abi::result::launch_failed);
  finish();
  EXPECT_EQ(first.last.kind(), fault::none);
  EXPECT_EQ(done_.last.kind(), fault::broken);
}

TEST_F(copier_test, freed_buffer__is_an_error_and_not_silence) {
  void* const a = gpu_memory(4 * KIB);
  post(direction::to_gpu, a, a, 8);
  mock().free(a);
  finish();
  expect_ended_with(fault::broken);
}

TEST_F(copier_test, post__small_and_out_of_host_memory__goes_in_two_rows) {
  void* const a = gpu_memory(64 * KIB);
  auto in = pattern(64 * KIB, 7);
  const auto rows_of = [&](direction way, std::size_t size) {
    mock().forget_counts();
    const bool is_out = way == direction::to_host;
    EXPECT_EQ(post(way, is_out ? in.data() : a, is_out ? a : in.data(), size).code,
              errorcode_t::posted);
    finish();
    EXPECT_EQ(mock().count("cuMemcpy2DAsync") + mock().count("cuMemcpyAsync"), 1u);
    return mock().count("cuMemcpy2DAsync");
  };
  for (const std::size_t size : {10u, 4096u, 24576u}) {
    std::fill(in.begin(), in.end(), std::byte(size / 3));
    EXPECT_EQ(rows_of(direction::to_gpu, size), 1u) << size;
    EXPECT_EQ(read(a, size), std::vector<std::byte>(size, std::byte(size / 3))) << size;
  }
  for (const std::size_t size : {8u, 11u, 24578u})
    EXPECT_EQ(rows_of(direction::to_gpu, size), 0u) << size;
  EXPECT_EQ(rows_of(direction::to_host, 4096), 0u);
  EXPECT_EQ(rows_of(direction::to_peer, 4096), 0u);
}

TEST_F(copier_test, post__rows_are_refused__nothing_was_begun) {
  void* const a = gpu_memory(4 * KIB);
  mock().fail_nth("cuMemcpy2DAsync", 1, abi::result::out_of_memory);
  const copy_answer answer = post(direction::to_gpu, a, a, 64);
  EXPECT_EQ(answer.code, errorcode_t::fatal);
  EXPECT_STREQ(answer.error.call, "cuMemcpy2DAsync");
  EXPECT_TRUE(copier_->is_idle());
}

class copier_no_rows_test : public copier_test {
 protected:
  copier_no_rows_test() : copier_test({.missing = {"cuMemcpy2DAsync"}}) {}
};

TEST_F(copier_no_rows_test, post__driver_without_rows__copies_all_the_same) {
  void* const a = gpu_memory(4 * KIB);
  const auto in = pattern(4 * KIB, 3);
  ASSERT_EQ(post(direction::to_gpu, a, in.data(), in.size()).code, errorcode_t::posted);
  finish();
  EXPECT_EQ(mock().count("cuMemcpyAsync"), 1u);
  EXPECT_EQ(read(a, in.size()), in);
}

class copier_no_batch_test : public copier_test {
 protected:
  copier_no_batch_test() : copier_test({.missing = {"cuMemcpyBatchAsync"}}) {}
};

TEST_F(copier_no_batch_test, post__a_later_copy_is_refused__the_others_are_followed_to_their_end) {
  void* const a = gpu_memory(4 * KIB);
  auto* const flag =
      static_cast<std::atomic<std::uint64_t>*>(mock().allocate(mocked::pinned, 4 * KIB));
  flag->store(0);
  const std::vector<copy> copies(3, copy{as_device(a), as_device(a), 8});
  mock().fail_nth("cuMemcpyAsync", 3, abi::result::invalid_value);
  const copy_answer answer =
      copier_->post(direction::to_peer, copies, {as_device(flag), 1, 8}, &done_);
  ASSERT_EQ(answer.code, errorcode_t::posted);
  copier_->poll();
  EXPECT_EQ(done_.calls, 0);  // two copies still use the buffers
  finish();
  expect_ended_with(fault::refused);
  EXPECT_EQ(flag->load(), 0u);
  EXPECT_EQ(post(direction::to_peer, a, a, 8).code, errorcode_t::posted);  // the lane is in order
  finish();
  expect_ended_with(fault::none, 2);
  // An error of the GPU is not of one call.
  mock().fail_nth("cuMemcpyAsync", 2, abi::result::launch_failed);
  copier_->post(direction::to_peer, copies, {}, &done_);
  finish();
  expect_ended_with(fault::broken, 3);
  EXPECT_EQ(post(direction::to_peer, a, a, 8).code, errorcode_t::fatal);
}

// A lane by itself, in its context.
class lane_alone : public cuda_test {
 protected:
  void begin(std::uint64_t tag) {
    const copy one{as_device(memory_), as_device(memory_), 8};
    EXPECT_FALSE(lane_.begin_st(std::span(&one, 1), {}, reinterpret_cast<void*>(tag)));
  }
  gpu_list gpus_{driver_};
  gpu& gpu_ = gpus_.at(0);
  const context_scope scope_{gpu_.call(), gpu_.context()};
  void* memory_ = gpu_memory(4 * KIB);
  lane::pinned* pinned_ = new (mock().allocate(mocked::pinned, sizeof(lane::pinned))) lane::pinned;
  lane lane_;
  lane::entry out_;
};

TEST_F(lane_alone, examine__healthy_once_does_not_hide_an_error_later) {
  lane_.open_st(gpu_, *pinned_);
  begin(1);
  mock().run_all();
  lane_.examine_st();
  EXPECT_FALSE(lane_.broken_st());
  begin(2);
  mock().break_next_operation(abi::result::launch_failed);
  mock().run_all();
  lane_.examine_st();
  EXPECT_EQ(lane_.broken_st().code, abi::result::launch_failed);
  ASSERT_TRUE(lane_.take_st(out_));
  EXPECT_EQ(out_.tag, reinterpret_cast<void*>(1));
  EXPECT_FALSE(out_.error);
  ASSERT_TRUE(lane_.take_st(out_));
  EXPECT_EQ(out_.tag, reinterpret_cast<void*>(2));
  EXPECT_TRUE(out_.error);
  EXPECT_FALSE(lane_.take_st(out_));
  lane_.close_st();
}

TEST_F(lane_alone, examine__a_word_that_never_comes_is_an_error) {
  lane_.open_st(gpu_, *pinned_);
  begin(1);
  mock().run_all();
  pinned_->reached.store(0);  // as if the write had gone astray
  lane_.examine_st();
  ASSERT_TRUE(lane_.take_st(out_));
  EXPECT_STREQ(out_.error.call, "cuStreamWriteValue64");
  lane_.close_st();
}

// Its word may come between the last look and the one that finds the error.
TEST_F(lane_alone, examine__what_ended_before_an_error_and_was_not_looked_at_ended_well) {
  lane_.open_st(gpu_, *pinned_);
  begin(1);
  mock().run_all();
  begin(2);
  mock().break_next_operation(abi::result::launch_failed);
  mock().run_all();
  lane_.examine_st();
  EXPECT_EQ(lane_.broken_st().code, abi::result::launch_failed);
  ASSERT_TRUE(lane_.take_st(out_));
  EXPECT_EQ(out_.tag, reinterpret_cast<void*>(1));
  EXPECT_FALSE(out_.error);
  ASSERT_TRUE(lane_.take_st(out_));
  EXPECT_EQ(out_.tag, reinterpret_cast<void*>(2));
  EXPECT_EQ(out_.error.code, abi::result::launch_failed);
  lane_.close_st();
}

TEST_F(lane_alone, take__nothing_under_way) {
  lane_.open_st(gpu_, *pinned_);
  EXPECT_FALSE(lane_.take_st(out_));
  lane_.examine_st();
  EXPECT_TRUE(lane_.is_idle_st());
  lane_.close_st();
  lane_.close_st();  // harmless
}

// A GPU (or driver) without words written by a stream: events and copied values instead.
class copier_events_test : public copier_test {
 protected:
  copier_events_test() : copier_test({.stream_writes = false}) {}
};

TEST_F(copier_events_test, post__small_bulk_and_flags) {
  auto* const flag =
      static_cast<std::atomic<std::uint64_t>*>(mock().allocate(mocked::pinned, 4 * KIB));
  void* const a = gpu_memory(MIB);
  const auto in = pattern(MIB, 13);
  for (std::uint64_t i = 1; i <= 600; ++i) {
    ASSERT_EQ(post(direction::to_gpu, a, in.data(), i % 50 == 0 ? MIB : 64,
                   {as_device(flag), i, i % 2 == 0 ? 8U : 4U})
                  .code,
              errorcode_t::posted);
    finish();
    ASSERT_EQ(flag->load(), i);
  }
  EXPECT_EQ(done_.calls, 600);
  EXPECT_EQ(read(a, MIB), in);
  EXPECT_EQ(mock().count("cuStreamWriteValue64"), 0u);
}

TEST_F(copier_events_test, poll__does_not_spoil_a_capture_of_the_user) {
  void* const a = gpu_memory(4 * KIB);
  mock().begin_capture();
  post(direction::to_gpu, a, a, 64);
  finish();
  EXPECT_TRUE(mock().end_capture());
  expect_ended_with(fault::none);
}

TEST_F(copier_events_test, gpu_error__comes_through_the_event) {
  void* const a = gpu_memory(4 * KIB);
  post(direction::to_gpu, a, a, 64);
  mock().break_next_operation(abi::result::launch_failed);
  finish();
  expect_ended_with(fault::broken);
}

}  // namespace
}  // namespace lci::cuda
