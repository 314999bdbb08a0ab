#include "backends/cuda/gpu.hpp"

#include "backends/cuda/errors.hpp"
#include "lci/errors.hpp"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {
namespace {

using test::throws_with;

class gpu_test : public cuda_test {
 protected:
  gpu_list gpus_{driver_};
};

TEST_F(gpu_test, facts__are_asked_without_making_a_context) {
  const gpu_facts& facts = gpus_.at(1).facts();
  EXPECT_EQ(facts.ordinal, 1);
  EXPECT_EQ(facts.name, "Mock GPU 1");
  EXPECT_EQ(facts.pci, "0000:11:00.0");
  EXPECT_TRUE(facts.stream_writes);
  EXPECT_TRUE(facts.vmm_descriptors);
  EXPECT_TRUE(facts.dma_buf);
  EXPECT_TRUE(facts.direct_rdma);
  EXPECT_EQ(mock().count("cuDevicePrimaryCtxRetain"), 0u);
}

TEST_F(gpu_test, facts__what_the_gpu_or_the_driver_lacks) {
  mock().reset({.driver_version = 11040, .vmm_descriptors = false, .dma_buf = true});
  driver old(mock_options());
  const gpu one(old, 0);
  EXPECT_FALSE(one.facts().stream_writes);  // the entry point is of CUDA 11.7
  EXPECT_FALSE(one.facts().dma_buf);        // so is this
  EXPECT_FALSE(one.facts().vmm_descriptors);
}

TEST_F(gpu_test, without_unified_addressing__is_refused) {
  mock().reset({.unified_addressing = false});
  driver other(mock_options());
  EXPECT_TRUE(throws_with<backend_error>([&] { const gpu one(other, 1); },
                                         {"GPU 1 has no unified addressing"}));
}

TEST_F(gpu_test, at__gives_the_same_one_again) { EXPECT_EQ(&gpus_.at(0), &gpus_.at(0)); }

TEST_F(gpu_test, at__names_the_ordinal_and_how_many_there_are) {
  EXPECT_TRUE(throws_with<backend_error>([&] { gpus_.at(2); }, {"no GPU 2", "sees 2"}));
  EXPECT_TRUE(throws_with<backend_error>([&] { gpus_.at(-1); }, {"no GPU -1"}));
}

TEST_F(gpu_test, context__is_retained_once_and_released) {
  {
    gpu one(driver_, 0);
    const abi::context first = one.context();
    EXPECT_EQ(one.context(), first);
    EXPECT_EQ(mock().count("cuDevicePrimaryCtxRetain"), 1u);
    EXPECT_FALSE(mock().leaks().empty());  // the guard of this fixture would see it
  }
  EXPECT_EQ(mock().count("cuDevicePrimaryCtxRelease"), 1u);
}

TEST_F(gpu_test, context__that_cannot_be_made_is_an_error) {
  mock().fail_nth("cuDevicePrimaryCtxRetain", 1, abi::result::out_of_memory);
  EXPECT_TRUE(throws_with<backend_error>(
      [&] { gpus_.at(1).context(); },
      {"cuDevicePrimaryCtxRetain failed on GPU 1: out of memory", "CUDA_ERROR_OUT_OF_MEMORY"}));
  EXPECT_NE(gpus_.at(1).context(), nullptr);  // memory is back
}

TEST_F(gpu_test, context_scope__leaves_the_users_stack_as_it_was) {
  const abi::functions& call = gpus_.at(0).call();
  ASSERT_EQ(call.ctx_push_current(gpus_.at(1).context()), abi::result::success);  // the user's
  {
    const context_scope outer(call, gpus_.at(0).context());
    EXPECT_EQ(outer.entered(), abi::result::success);
    const context_scope inner(call, gpus_.at(1).context());
    EXPECT_EQ(mock().context_depth(), 3u);
  }
  EXPECT_EQ(mock().context_depth(), 1u);
  abi::context left = nullptr;
  ASSERT_EQ(call.ctx_pop_current(&left), abi::result::success);
  EXPECT_EQ(left, gpus_.at(1).context());
}

TEST_F(gpu_test, context_scope__a_destroyed_context_is_not_entered) {
  const abi::context gone = gpus_.at(0).context();
  mock().destroy_context(0);
  const context_scope scope(gpus_.at(0).call(), gone);
  EXPECT_EQ(scope.entered(), abi::result::context_is_destroyed);
  EXPECT_EQ(fault_of(scope.entered()), fault::gone);
  EXPECT_EQ(mock().context_depth(), 0u);
}

TEST_F(gpu_test, context_scope__a_capture_of_the_user_is_not_spoilt) {
  const abi::functions& call = gpus_.at(0).call();
  const abi::context context = gpus_.at(0).context();
  void* pinned = nullptr;
  mock().begin_capture();
  {
    const context_scope scope(call, context);
    EXPECT_EQ(call.mem_host_alloc(&pinned, 4096, 0), abi::result::success);
  }
  EXPECT_TRUE(mock().end_capture());
  call.mem_free_host(pinned);
  // Without the scope's exchange of modes the same call spoils it.
  mock().begin_capture();
  call.ctx_push_current(context);
  EXPECT_EQ(call.mem_host_alloc(&pinned, 4096, 0), abi::result::stream_capture_unsupported);
  abi::context left = nullptr;
  call.ctx_pop_current(&left);
  EXPECT_FALSE(mock().end_capture());
}

TEST_F(gpu_test, peer_access__is_enabled_or_refused_by_a_sentence) {
  EXPECT_EQ(gpus_.at(0).why_no_peer_access(gpus_.at(0)), "");
  EXPECT_EQ(gpus_.at(0).why_no_peer_access(gpus_.at(1)), "");
  EXPECT_EQ(mock().count("cuCtxEnablePeerAccess"), 1u);
  mock().fail_nth("cuCtxEnablePeerAccess", 1, abi::result::peer_access_already_enabled);
  EXPECT_EQ(gpus_.at(1).why_no_peer_access(gpus_.at(0)), "");
  mock().fail_nth("cuCtxPushCurrent", 1, abi::result::invalid_context);
  EXPECT_NE(gpus_.at(1).why_no_peer_access(gpus_.at(0)).find("invalid device context"),
            std::string::npos);
  mock().fail_nth("cuCtxEnablePeerAccess", 1, abi::result::out_of_memory);
  EXPECT_EQ(gpus_.at(1).why_no_peer_access(gpus_.at(0)),
            "cuCtxEnablePeerAccess failed on GPU 1 and GPU 0: out of memory "
            "[CUDA_ERROR_OUT_OF_MEMORY 2]");
}

TEST_F(gpu_test, has_atomics_on__as_the_driver_says_of_the_pair) {
  EXPECT_TRUE(gpus_.at(0).has_atomics_on(gpus_.at(0)));
  EXPECT_EQ(mock().count("cuDeviceGetP2PAttribute"), 0u);
  EXPECT_TRUE(gpus_.at(0).has_atomics_on(gpus_.at(1)));
  mock().fail_nth("cuDeviceGetP2PAttribute", 1, abi::result::invalid_device);
  EXPECT_FALSE(gpus_.at(0).has_atomics_on(gpus_.at(1)));
}

TEST(peer_access, missing__is_named) {
  mock().reset({.peer_access = false});
  driver d(mock_options());
  gpu one(d, 0), two(d, 1);
  EXPECT_EQ(one.why_no_peer_access(two), "GPU 0 and GPU 1 have no peer access");
}

}  // namespace
}  // namespace lci::cuda
