#include "backends/cuda/copy_stream.hpp"

#include "lci/errors.hpp"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {
namespace {

class copy_stream_test : public cuda_test {
 protected:
  gpu_list gpus_{driver_};
};

TEST_F(copy_stream_test, ended__in_order_and_events_are_used_again) {
  driver_.require();
  copy_stream copies(gpus_.at(0));
  auto* const to = static_cast<std::byte*>(gpu_memory(4096));
  const std::vector<std::byte> from = pattern(4096, 1);
  for (int round = 0; round < 10; ++round) {
    copies.start(to, from.data(), 2048);
    copies.start(to + 2048, from.data() + 2048, 2048);
    copies.start(to, from.data(), 0);
    mock().run_all();
    EXPECT_EQ(copies.ended(0), static_cast<std::uint64_t>(round * 3 + 3));
  }
  EXPECT_EQ(read(to, 4096), from);
  EXPECT_EQ(mock().count("cuEventCreate"), 3u);
}

TEST_F(copy_stream_test, start__each_failing_call_throws_and_starts_nothing) {
  driver_.require();
  copy_stream copies(gpus_.at(0));
  auto* const to = static_cast<std::byte*>(gpu_memory(4096));
  const std::vector<std::byte> from = pattern(64, 1);
  mock().set_engine_thread(true);
  for (const char* call : {"cuEventCreate", "cuMemcpyAsync", "cuEventRecord", "cuCtxPushCurrent"}) {
    mock().fail_nth(call, 1, abi::result::invalid_value);
    EXPECT_THROW(copies.start(to, from.data(), 64), backend_error) << call;
  }
  mock().set_engine_thread(false);
  EXPECT_EQ(copies.ended(0), 0u);
  mock().fail_nth("cuStreamCreate", 1, abi::result::out_of_memory);
  EXPECT_THROW(copy_stream(gpus_.at(0)), backend_error);
}

// The caller may use the memory for other things once it was thrown.
TEST_F(copy_stream_test, start__throws_only_when_the_gpu_copies_no_more) {
  driver_.require();
  copy_stream copies(gpus_.at(0));
  auto* const to = static_cast<std::byte*>(gpu_memory(4096));
  const std::vector<std::byte> from = pattern(64, 1);
  mock().set_engine_thread(true);
  mock().fail_nth("cuEventRecord", 1, abi::result::out_of_memory);
  EXPECT_THROW(copies.start(to, from.data(), 64), backend_error);
  EXPECT_GE(mock().count("cuStreamQuery"), 1u);
  EXPECT_EQ(mock().queued_operations(), 0u);
  mock().set_engine_thread(false);
  EXPECT_EQ(copies.ended(0), 0u);
  copies.start(to, from.data(), 64);
  mock().run_all();
  EXPECT_EQ(copies.ended(0), 1u);
}

TEST_F(copy_stream_test, ended__a_broken_stream_throws) {
  driver_.require();
  copy_stream copies(gpus_.at(0));
  auto* const to = static_cast<std::byte*>(gpu_memory(4096));
  const std::vector<std::byte> from = pattern(64, 1);
  mock().break_next_operation(abi::result::illegal_address);
  copies.start(to, from.data(), 64);
  mock().run_all();
  EXPECT_THROW(copies.ended(1), backend_error);
}

TEST_F(copy_stream_test, end__waits_for_what_was_started) {
  driver_.require();
  auto* const to = static_cast<std::byte*>(gpu_memory(4096));
  const std::vector<std::byte> from = pattern(64, 1);
  mock().set_engine_thread(true);
  {
    copy_stream copies(gpus_.at(0));
    copies.start(to, from.data(), 64);
  }
  mock().set_engine_thread(false);
  EXPECT_EQ(read(to, 64), from);
}

}  // namespace
}  // namespace lci::cuda
