// Host memory known to the driver, and what the parts do together; the parts have tests of their
// own: copy_batcher, share_records, peer_maps.
#include "backends/cuda/accelerator.hpp"

#include <new>

#include "lci/errors.hpp"
#include "tests/support/failing_new/each_allocation.hpp"
#include "tests/unit/cuda/accelerator_fixture.hpp"

namespace lci::cuda {
namespace {

TEST_F(accelerator_test, constructor__uses_no_gpu) {
  EXPECT_EQ(mock().count("cuDevicePrimaryCtxRetain"), 0u);
  EXPECT_EQ(mock().leaks(), std::vector<std::string>{});
}

TEST_F(accelerator_test, constructor__says_why_cuda_cannot_be_used) {
  driver off({false, LCI_MOCK_CUDA});
  pointer_cache pointers(off);
  EXPECT_TRUE(test::throws_with<backend_error>(
      [&] { const accelerator none(off, pointers, arena_); }, {"switched off"}));
}

TEST_F(accelerator_test, pin__is_known_to_the_driver_until_unpin) {
  std::vector<std::byte> memory(16 * KIB);
  EXPECT_EQ(acc_->pin(memory.data(), memory.size()), "");
  EXPECT_EQ(pointers_.find(memory.data() + 5).what.kind, allocation_kind::pinned);
  acc_->unpin(memory.data());
  EXPECT_EQ(pointers_.find(memory.data() + 5).what.kind, allocation_kind::host);
  EXPECT_EQ(mock().count("cuMemHostUnregister"), 1u);
  acc_->unpin(memory.data());  // harmless
  EXPECT_EQ(mock().count("cuMemHostUnregister"), 1u);
}

TEST_F(accelerator_test, pin__what_the_user_has_registered_stays_his) {
  void* const his = mock().allocate(mocked::pinned, 16 * KIB);
  EXPECT_EQ(acc_->pin(his, 16 * KIB), "");
  acc_->unpin(his);
  EXPECT_EQ(mock().count("cuMemHostUnregister"), 0u);
  EXPECT_EQ(pointers_.find(his).what.kind, allocation_kind::pinned);
}

TEST_F(accelerator_test, pin__uses_a_gpu_that_is_in_use_anyway) {
  void* const a = gpu_memory(64, 1);
  told_job job;
  copy(job, mem::copy_way::to_peer, a, a, 64, 1);
  finish(1);
  std::vector<std::byte> memory(16 * KIB);
  EXPECT_EQ(acc_->pin(memory.data(), memory.size()), "");
  EXPECT_EQ(mock().count("cuDevicePrimaryCtxRetain"), 1u);
  acc_->unpin(memory.data());
}

TEST_F(accelerator_test, pin__each_failing_call_is_a_sentence) {
  std::vector<std::byte> memory(16 * KIB);
  for (const char* call : {"cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuMemHostRegister"}) {
    mock().fail_nth(call, 1, abi::result::not_supported);
    EXPECT_TRUE(has(acc_->pin(memory.data(), memory.size()), std::string(call) + " failed on "));
  }
  acc_->unpin(memory.data());
  EXPECT_EQ(mock().count("cuMemHostUnregister"), 0u);
  EXPECT_EQ(acc_->pin(memory.data(), memory.size()), "");  // the fixture looks whether it is undone
}

TEST_F(accelerator_test, pin__want_of_host_memory_leaves_nothing_registered) {
  std::vector<std::byte> memory(16 * KIB);
  EXPECT_EQ(acc_->pin(memory.data(), memory.size()), "");  // with the context, which stays
  acc_->unpin(memory.data());
  mock().call_around(&test::pause_failing_new, &test::resume_failing_new);
  test::for_each_allocation([&](std::uint64_t n) {
    bool has_fired = false;
    {
      const test::fail_nth_new failing(n);
      try {
        acc_->pin(memory.data(), memory.size());
      } catch (const std::bad_alloc&) {
      }
      acc_->unpin(memory.data());
      has_fired = failing.fired();
    }
    EXPECT_EQ(mock().count("cuMemHostRegister"), mock().count("cuMemHostUnregister"));
    return has_fired;
  });
}

TEST_F(accelerator_test, pin__a_gpu_that_is_lost_is_a_sentence_and_unpin_harmless) {
  std::vector<std::byte> memory(16 * KIB), more(16 * KIB);
  EXPECT_EQ(acc_->pin(memory.data(), memory.size()), "");
  mock().destroy_context(0);
  EXPECT_NE(acc_->pin(more.data(), more.size()), "");
  acc_->unpin(memory.data());
  EXPECT_EQ(mock().count("cuMemHostUnregister"), 0u);
  const auto found = pointers_.find(memory.data());
  EXPECT_EQ(found.what.kind, allocation_kind::pinned);
  mock().reset();  // a lost context takes its registrations along
}

}  // namespace
}  // namespace lci::cuda
