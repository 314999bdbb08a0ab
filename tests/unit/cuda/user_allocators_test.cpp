#include "backends/cuda/user_allocators.hpp"

#include <new>

#include "backends/cuda/pointer.hpp"
#include "lci/errors.hpp"
#include "tests/support/failing_new/each_allocation.hpp"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {
namespace {

using test::throws_with;

class user_memory_test : public cuda_test {
 protected:
  allocation classify(const void* at) { return cuda::classify(driver_.in_process(), at).what; }
  user_allocators memory_{driver_};
};

TEST_F(user_memory_test, device_and_pinned__are_what_they_say) {
  void* const device = memory_.allocate(100, 1, false);
  EXPECT_EQ(classify(device).kind, allocation_kind::device);
  EXPECT_EQ(classify(device).ordinal, 1);
  void* const pinned = memory_.allocate(100, 0, true);
  EXPECT_EQ(classify(pinned).kind, allocation_kind::pinned);
  void* const nothing = memory_.allocate(0, 0, false);
  EXPECT_NE(nothing, nullptr);
  for (void* const one : {device, pinned, nothing}) memory_.release(one);
  EXPECT_EQ(mock().context_depth(), 0u);
}

TEST_F(user_memory_test, context__is_retained_while_memory_exists) {
  void* const a = memory_.allocate(100, 0, false);
  void* const b = memory_.allocate(100, 0, true);
  EXPECT_EQ(mock().count("cuDevicePrimaryCtxRetain"), 1u);
  memory_.release(a);
  EXPECT_EQ(mock().count("cuDevicePrimaryCtxRelease"), 0u);
  memory_.release(b);
  EXPECT_EQ(mock().count("cuDevicePrimaryCtxRelease"), 1u);
  memory_.release(memory_.allocate(100, 0, false));
  EXPECT_EQ(mock().count("cuDevicePrimaryCtxRetain"), 2u);
  EXPECT_EQ(mock().count("cuMemFree"), 2u);
  EXPECT_EQ(mock().count("cuMemFreeHost"), 1u);
}

TEST_F(user_memory_test, failures__name_the_call_and_the_memory) {
  EXPECT_TRUE(
      throws_with<backend_error>([&] { memory_.allocate(8, 2, false); }, {"no GPU 2", "sees 2"}));
  EXPECT_TRUE(throws_with<backend_error>([&] { memory_.allocate(8, -1, true); }, {"no GPU -1"}));
  mock().fail_nth("cuMemAlloc", 1, abi::result::out_of_memory);
  EXPECT_TRUE(throws_with<backend_error>([&] { memory_.allocate(8, 1, false); },
                                         {"cuMemAlloc", "8 bytes on GPU 1", "out of memory"}));
  mock().fail_nth("cuMemHostAlloc", 1, abi::result::out_of_memory);
  EXPECT_TRUE(throws_with<backend_error>([&] { memory_.allocate(8, 0, true); },
                                         {"cuMemHostAlloc", "8 bytes of pinned memory"}));
  EXPECT_EQ(mock().context_depth(), 0u);
}

TEST_F(user_memory_test, allocate__want_of_host_memory_leaves_nothing) {
  void* const first = memory_.allocate(100, 0, false);  // with the context, which stays
  mock().forget_counts();
  mock().call_around(&test::pause_failing_new, &test::resume_failing_new);
  for (const bool pinned : {false, true}) {
    test::for_each_allocation([&](std::uint64_t n) {
      bool has_fired = false;
      {
        const test::fail_nth_new failing(n);
        try {
          memory_.release(memory_.allocate(100, 0, pinned));
        } catch (const std::bad_alloc&) {
        }
        has_fired = failing.fired();
      }
      EXPECT_EQ(mock().count("cuMemAlloc"), mock().count("cuMemFree"));
      EXPECT_EQ(mock().count("cuMemHostAlloc"), mock().count("cuMemFreeHost"));
      return has_fired;
    });
  }
  memory_.release(first);
}

TEST_F(user_memory_test, release__of_anything_else_is_refused) {
  int host = 0;
  EXPECT_TRUE(throws_with<argument_error>([&] { memory_.release(&host); }, {"not from this"}));
  void* const once = memory_.allocate(100, 0, false);
  memory_.release(once);
  EXPECT_TRUE(throws_with<argument_error>([&] { memory_.release(once); }, {"given back"}));
}

TEST_F(user_memory_test, no_driver__is_the_drivers_sentence) {
  driver none(driver_options{.allowed = true, .library = "libno_such_cuda.so"});
  user_allocators nothing(none);
  EXPECT_TRUE(
      throws_with<backend_error>([&] { nothing.allocate(8, 0, false); }, {"libno_such_cuda.so"}));
}

}  // namespace
}  // namespace lci::cuda
