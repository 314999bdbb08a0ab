// The ladder on memory of the mock driver, through the domain as networks see it: they name no
// CUDA.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "backends/cuda/domain.hpp"
#include "backends/cuda/pointer.hpp"
#include "lci/mem/registration_ladder.hpp"
#include "tests/support/sizes.hpp"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {
namespace {

using lci::test::MIB;
using mem::rung;
constexpr std::uint64_t PAGE = 4096;

// A card that registers what it is given, unless told otherwise, and looks at it first.
class card final : public mem::device_registrar {
 public:
  mem::registration_answer register_range(const mem::descriptor_range& what) override {
    struct stat about {};
    EXPECT_EQ(fstat(what.fd, &about), 0);
    EXPECT_EQ(what.offset % PAGE, what.iova % PAGE);
    EXPECT_LT(what.offset, PAGE);
    ranges.push_back(what);
    if (what.wants_data_direct && !has_data_direct)
      return {0, "mlx5dv_reg_dmabuf_mr on card0", ENODEV, true};
    if (refuses_ranges) return {0, "ibv_reg_dmabuf_mr on card0", EOPNOTSUPP, false};
    return {1, "", 0, false};
  }
  mem::registration_answer register_pointer(void*, std::size_t) override {
    ++pointers;
    if (refuses_pointers) return {0, "ibv_reg_mr on card0", EFAULT, false};
    return {2, "", 0, false};
  }
  std::vector<mem::descriptor_range> ranges;
  std::size_t pointers = 0;
  bool has_data_direct = true, refuses_ranges = false, refuses_pointers = false;
};

class network_ladder_test : public cuda_test {
 protected:
  explicit network_ladder_test(const test::mock_config& config = {.pcie_dma_buf = true})
      : cuda_test(config) {}
  mem::device_registration climb(void* memory, std::size_t offset, std::size_t size) {
    auto* const at = static_cast<std::byte*>(memory) + offset;
    return ladder_.climb(card_, DOMAIN.find(at), at, size);
  }
  std::size_t asked() { return mock().count("cuMemGetHandleForAddressRange"); }
  static testing::AssertionResult says(const mem::device_registration& got,
                                       std::initializer_list<const char*> texts) {
    for (const char* text : texts)
      if (got.why_not().find(text) == std::string::npos)
        return testing::AssertionFailure() << "\"" << text << "\" is not in: " << got.why_not();
    return testing::AssertionSuccess();
  }
  card card_;
  mem::registration_ladder ladder_{"card0", {}};
};

TEST_F(network_ladder_test, device_memory__takes_the_first_rung_that_holds) {
  void* const memory = gpu_memory(MIB);
  EXPECT_EQ(climb(memory, 0, MIB).by, rung::data_direct);
  card_.has_data_direct = false;
  const mem::device_registration got = climb(memory, 0, MIB);
  EXPECT_EQ(got.by, rung::dma_buf);
  EXPECT_TRUE(
      says(got, {"data_direct: card0: mlx5dv_reg_dmabuf_mr on card0: No such device [19]"}));
  // The card has none: that is known from now on.
  const std::size_t before = asked();
  EXPECT_EQ(climb(memory, 0, MIB).by, rung::dma_buf);
  EXPECT_EQ(asked(), before + 1);
  card_.refuses_ranges = true;
  EXPECT_EQ(climb(memory, 0, MIB).by, rung::peer_memory);
  card_.refuses_pointers = true;
  const mem::device_registration none = climb(memory, 0, MIB);
  EXPECT_FALSE(none.by);
  EXPECT_TRUE(says(none, {"data_direct: card0: ", "dma_buf: card0: ibv_reg_dmabuf_mr",
                          "peer_memory: card0: ibv_reg_mr on card0: Bad address [14]"}));
  card_.refuses_ranges = false;
  EXPECT_EQ(climb(memory, 0, MIB).by, rung::dma_buf);
}

TEST_F(network_ladder_test, parts_of_one_allocation__each_have_their_place_in_their_pages) {
  void* const memory = gpu_memory(MIB);
  const std::array<std::pair<std::size_t, std::size_t>, 5> parts = {
      {{0, 100}, {100, 4000}, {4095, 2}, {5000, 70'000}, {MIB - 1, 1}}};
  for (const auto& [offset, size] : parts) {
    EXPECT_EQ(climb(memory, offset, size).by, rung::data_direct);
    EXPECT_EQ(card_.ranges.back().iova, as_device(memory) + offset);
    EXPECT_EQ(card_.ranges.back().offset, offset % PAGE);
    EXPECT_EQ(card_.ranges.back().length, size);
  }
}

TEST_F(network_ladder_test, driver_that_refuses_one_buffer__is_asked_for_the_next) {
  void* const memory = gpu_memory(MIB);
  mock().fail_nth("cuMemGetHandleForAddressRange", 1, abi::result::invalid_value);
  const mem::device_registration first = climb(memory, 0, MIB);
  EXPECT_EQ(first.by, rung::dma_buf);
  EXPECT_TRUE(says(first, {"data_direct: cuda: cuMemGetHandleForAddressRange failed on "}));
  card_.has_data_direct = false;
  climb(memory, 0, MIB);
  mock().fail_nth("cuMemGetHandleForAddressRange", 1, abi::result::out_of_memory);
  const mem::device_registration second = climb(memory, 0, MIB);
  EXPECT_EQ(second.by, rung::peer_memory);
  EXPECT_TRUE(says(
      second, {"data_direct: card0: ", "dma_buf: cuda: cuMemGetHandleForAddressRange failed on ",
               "out of memory [CUDA_ERROR_OUT_OF_MEMORY 2]"}));
  EXPECT_EQ(second.failed.back().error, static_cast<int>(abi::result::out_of_memory));
  EXPECT_EQ(climb(memory, 0, MIB).by, rung::dma_buf);
}

TEST_F(network_ladder_test, buffer_that_shares_its_page__goes_by_its_address) {
  const mem::device_registration got = climb(gpu_memory(512), 0, 512);
  EXPECT_EQ(got.by, rung::peer_memory);
  EXPECT_TRUE(says(got, {"dma_buf: cuda: a dma-buf covers whole pages"}));
  EXPECT_EQ(mock().count("cuPointerSetAttribute"), 1u) << "it is made synchronous all the same";
}

TEST_F(network_ladder_test, managed_and_pooled_memory__nobody_is_asked) {
  for (const auto kind : {mocked::managed, mocked::pool}) {
    const mem::device_registration got = climb(mock().allocate(kind, MIB), 0, MIB);
    EXPECT_FALSE(got.by);
    EXPECT_EQ(got.failed.size(), mem::RUNGS);
    EXPECT_TRUE(says(got, {kind == mocked::managed ? "managed memory" : "stream-ordered memory"}));
  }
  EXPECT_EQ(asked(), 0u);
  EXPECT_TRUE(card_.ranges.empty());
  EXPECT_EQ(card_.pointers, 0u);
  EXPECT_EQ(climb(gpu_memory(MIB), 0, MIB).by, rung::data_direct)
      << "other memory is not concerned";
}

TEST_F(network_ladder_test, vmm__by_dma_buf_and_no_context_stays) {
  EXPECT_EQ(climb(mock().allocate(mocked::vmm, 2 * MIB), 100, MIB).by, rung::data_direct);
  EXPECT_FALSE(climb(mock().allocate(mocked::vmm_without_export, 2 * MIB), 0, MIB).by);
  EXPECT_EQ(mock().context_depth(), 0u);
}

class ladder_without_dma_buf : public network_ladder_test {
 protected:
  ladder_without_dma_buf() : network_ladder_test({.dma_buf = false}) {}
};

TEST_F(ladder_without_dma_buf, every_buffer__goes_by_its_address_and_the_gpu_is_asked_once) {
  void* const memory = gpu_memory(MIB);
  EXPECT_EQ(climb(memory, 0, MIB).by, rung::peer_memory);
  const std::size_t facts = mock().count("cuDeviceGetAttribute");
  const mem::device_registration got = climb(memory, 0, MIB);
  EXPECT_TRUE(
      says(got, {"data_direct: cuda: GPU 0 or its driver has no dma-buf", "dma_buf: cuda: "}));
  // Only the pointer is asked about any more.
  EXPECT_LT(mock().count("cuDeviceGetAttribute") - facts, facts);
  EXPECT_EQ(asked(), 0u);
}

class ladder_without_rdma : public network_ladder_test {
 protected:
  ladder_without_rdma() : network_ladder_test({.dma_buf = false, .direct_rdma = false}) {}
};

TEST_F(ladder_without_rdma, every_buffer__goes_through_host_memory) {
  const mem::device_registration got = climb(gpu_memory(MIB), 0, MIB);
  EXPECT_FALSE(got.by);
  EXPECT_TRUE(says(got, {"peer_memory: cuda: GPU 0 has no GPUDirect RDMA"}));
  EXPECT_TRUE(std::all_of(got.failed.begin(), got.failed.end(),
                          [](const mem::rung_failure& one) { return one.is_final; }));
  EXPECT_EQ(card_.pointers, 0u);
}

}  // namespace
}  // namespace lci::cuda
