#include "backends/cuda/network_memory.hpp"

#include "tests/support/sizes.hpp"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {
namespace {

using lci::test::MIB;

class network_memory_test : public cuda_test {
 protected:
  gpu_list gpus_{driver_};
  allocation what(const void* pointer) { return classify(driver_.in_process(), pointer).what; }
  mem::network_export buffer(void* memory, std::size_t offset, std::size_t size,
                             bool pcie = false) {
    return export_dma_buf(gpus_, what(memory), as_device(memory) + offset, size, pcie);
  }
  mem::network_pointer pointer(void* memory) { return ready_pointer(gpus_, what(memory)); }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

// Every place of a small buffer in three pages.
TEST_F(network_memory_test, dma_buf__base_and_size_are_whole_pages_wherever_the_buffer_lies) {
  void* const memory = gpu_memory(3 * 4096);
  for (const std::size_t offset : {0, 1, 4095, 4096, 4097, 8191, 12287})
    for (const std::size_t size : {1, 4095, 4096, 4097, 8192, 12288}) {
      const mem::network_export out = buffer(memory, offset, size);
      if (offset + size > 3 * 4096) {
        EXPECT_TRUE(has(out.why_not, "whole pages")) << out.why_not;
        continue;
      }
      EXPECT_EQ(out.why_not, "") << offset << " " << size;
      EXPECT_EQ(out.base % 4096, 0u);
      EXPECT_EQ(out.size % 4096, 0u);
      EXPECT_EQ(out.base + out.offset, as_device(memory) + offset);
      EXPECT_LT(out.offset, 4096u);
      EXPECT_GE(out.size, out.offset + size);
      EXPECT_LT(out.size - out.offset - size, 4096u);
    }
}

TEST_F(network_memory_test, dma_buf__parts_of_one_allocation_have_its_identity) {
  void* const memory = gpu_memory(MIB);
  const mem::network_export one = buffer(memory, 100, 5000);
  const mem::network_export other = buffer(memory, 4200, 64);
  EXPECT_NE(one.fd.get(), other.fd.get());
  EXPECT_EQ(one.id, other.id);
  EXPECT_NE(one.id.buffer_id, 0u);
  mock().free(memory);
  EXPECT_NE(buffer(gpu_memory(MIB), 0, MIB).id, one.id);
}

TEST_F(network_memory_test, vmm__only_if_it_was_made_for_it) {
  const mem::network_export good = buffer(mock().allocate(mocked::vmm, 2 * MIB), 4096, 100);
  EXPECT_EQ(good.why_not, "");
  EXPECT_FALSE(good.is_synchronous) << "as driver 580 refuses";
  void* const other = mock().allocate(mocked::vmm_without_export, 2 * MIB);
  for (const std::string& why : {buffer(other, 0, MIB).why_not, pointer(other).why_not})
    EXPECT_TRUE(has(why, "GPUDirect RDMA")) << why;
}

TEST_F(network_memory_test, dma_buf_through_pcie__is_newer_than_dma_buf) {
  void* const memory = gpu_memory(MIB);
  EXPECT_EQ(buffer(memory, 0, MIB, true).error, static_cast<int>(abi::result::not_supported));
  mock().reset({.driver_version = 12040, .pcie_dma_buf = true});
  mock().start();
  driver old(mock_options());
  gpu_list gpus(old);
  void* const there = gpu_memory(MIB);
  const mem::network_export none = export_dma_buf(gpus, what(there), as_device(there), MIB, true);
  EXPECT_TRUE(none.is_final);
  EXPECT_TRUE(has(none.why_not, "12.8")) << none.why_not;
  EXPECT_EQ(mock().count("cuMemGetHandleForAddressRange"), 0u);
  EXPECT_TRUE(export_dma_buf(gpus, what(there), as_device(there), MIB, false).fd);
}

TEST_F(network_memory_test, each_failing_call__is_a_sentence_and_leaves_nothing) {
  void* const memory = gpu_memory(MIB);
  for (const char* call : {"cuCtxPushCurrent", "cuMemGetHandleForAddressRange"}) {
    mock().fail_nth(call, 1, abi::result::invalid_value);
    const mem::network_export out = buffer(memory, 0, MIB);
    EXPECT_TRUE(has(out.why_not, std::string(call) + " failed on ")) << out.why_not;
    EXPECT_EQ(out.error, static_cast<int>(abi::result::invalid_value));
    EXPECT_FALSE(out.is_final);
    EXPECT_FALSE(out.fd);
  }
  mock().fail_nth("cuPointerSetAttribute", 1, abi::result::not_supported);
  EXPECT_FALSE(buffer(memory, 0, MIB).is_synchronous);
  EXPECT_TRUE(buffer(memory, 0, MIB).is_synchronous);
}

// A driver that does not know the question has no memory that it would be answered no for.
TEST_F(network_memory_test, without_an_answer_about_rdma__goes_on) {
  void* const memory = gpu_memory(MIB);
  mock().fail_nth("cuPointerGetAttribute", 1, abi::result::invalid_value);
  EXPECT_EQ(buffer(memory, 0, MIB).why_not, "");
}

TEST_F(network_memory_test, pointer__of_device_memory_is_made_synchronous) {
  const mem::network_pointer out = pointer(gpu_memory(512));
  EXPECT_EQ(out.why_not, "");
  EXPECT_TRUE(out.is_synchronous);
  EXPECT_EQ(mock().count("cuPointerSetAttribute"), 1u);
  EXPECT_EQ(mock().context_depth(), 0u);
}

TEST_F(network_memory_test, pointer__never_of_managed_pooled_or_host_memory) {
  for (const auto kind : {mocked::managed, mocked::pool, mocked::pinned}) {
    const mem::network_pointer out = pointer(mock().allocate(kind, MIB));
    EXPECT_FALSE(out.why_not.empty());
    EXPECT_FALSE(out.is_final) << "other memory of this GPU may be registered";
  }
}

TEST_F(network_memory_test, pointer__of_a_gpu_without_rdma_is_final) {
  mock().reset({.direct_rdma = false});
  mock().start();
  driver other(mock_options());
  gpu_list gpus(other);
  const mem::network_pointer out = ready_pointer(gpus, what(gpu_memory(MIB)));
  EXPECT_TRUE(out.is_final);
  EXPECT_TRUE(has(out.why_not, "no GPUDirect RDMA")) << out.why_not;
}

TEST_F(network_memory_test, dma_buf__whole_pages_around_the_buffer) {
  void* const memory = gpu_memory(MIB);
  const mem::network_export out = buffer(memory, 5000, 10000);
  EXPECT_EQ(out.why_not, "");
  EXPECT_TRUE(out.fd);
  EXPECT_EQ(out.base, as_device(memory) + 4096);
  EXPECT_EQ(out.offset, 904u);
  EXPECT_EQ(out.size, 12288u);
  EXPECT_TRUE(out.is_synchronous);
}

TEST_F(network_memory_test, dma_buf__small_allocation_shares_its_page) {
  const mem::network_export out = buffer(gpu_memory(512), 0, 512);
  EXPECT_TRUE(has(out.why_not, "whole pages")) << out.why_not;
  EXPECT_FALSE(out.is_final);
  EXPECT_EQ(mock().count("cuMemGetHandleForAddressRange"), 0u);
}

TEST_F(network_memory_test, dma_buf__never_asked_for_managed_pooled_host_or_nothing) {
  for (const auto kind : {mocked::managed, mocked::pinned, mocked::pool})
    EXPECT_FALSE(buffer(mock().allocate(kind, MIB), 0, MIB).why_not.empty());
  EXPECT_FALSE(buffer(gpu_memory(MIB), 0, 0).why_not.empty());
  EXPECT_EQ(mock().count("cuMemGetHandleForAddressRange"), 0u);
}

TEST_F(network_memory_test, dma_buf__a_gpu_without_is_final_and_one_buffer_that_fails_is_not) {
  void* const memory = gpu_memory(MIB);
  EXPECT_TRUE(has(buffer(memory, 0, MIB, true).why_not, "operation not supported"));
  EXPECT_FALSE(buffer(memory, 0, MIB, true).is_final);
  EXPECT_TRUE(buffer(memory, 0, MIB).fd);
  mock().reset({.dma_buf = false});
  mock().start();
  driver other(mock_options());
  gpu_list gpus(other);
  void* const there = gpu_memory(MIB);
  const mem::network_export out = export_dma_buf(gpus, what(there), as_device(there), MIB);
  EXPECT_TRUE(out.is_final);
  EXPECT_TRUE(has(out.why_not, "no dma-buf"));
}

}  // namespace
}  // namespace lci::cuda
