// The rungs that every build has; Data Direct is in experimental/tests/unit/ibv.
#include "tests/unit/ibv/gpu_ladder_world.hpp"

#include <algorithm>
#include <cerrno>

namespace lci::ibv {
namespace {

class gpu_ladder_test : public on_a_gpu_ladder {
 protected:
  gpu_ladder_test() : on_a_gpu_ladder("^data_direct") {}
};

TEST_F(gpu_ladder_test, each_rung__when_those_above_are_refused) {
  void* const memory = device_memory(MIB);
  EXPECT_EQ(way_of(memory, MIB), "ibv_reg_dmabuf_mr");
  card().fail_nth("ibv_reg_dmabuf_mr", 1, EINVAL);
  EXPECT_EQ(way_of(memory, MIB), "ibv_reg_dmabuf_mr ibv_reg_mr");
  card().fail_nth("ibv_reg_dmabuf_mr", 1, EOPNOTSUPP);
  way_of(memory, MIB);
  EXPECT_EQ(way_of(memory, MIB), "ibv_reg_mr");
  card().fail_nth("ibv_reg_mr", 1, EFAULT);
  EXPECT_EQ(add(memory, MIB), 0u);
  for (const char* text :
       {"dma_buf: ibv fake_0:1: ibv_reg_dmabuf_mr on fake_0:1: Operation not supported [95]",
        "peer_memory: ibv fake_0:1: ibv_reg_mr on fake_0:1: Bad address [14]"})
    EXPECT_NE(why_not_.find(text), std::string::npos) << why_not_;
}

TEST_F(gpu_ladder_test, driver_that_refuses_a_buffer__is_asked_for_the_next) {
  void* const memory = device_memory(MIB);
  const auto refuse = [](int n) {
    gpus().fail_nth("cuMemGetHandleForAddressRange", n, cuda::abi::result::invalid_value);
  };
  EXPECT_EQ(way_of(memory, MIB), "ibv_reg_dmabuf_mr");
  refuse(1);
  EXPECT_EQ(way_of(memory, MIB), "ibv_reg_mr");
  EXPECT_EQ(way_of(memory, MIB), "ibv_reg_dmabuf_mr");
}

TEST_F(gpu_ladder_test, parts_of_one_allocation__are_registrations_of_their_own) {
  auto* const memory = static_cast<std::byte*>(device_memory(MIB));
  std::vector<std::uint64_t> keys;
  std::vector<std::uint32_t> names;
  const std::pair<std::size_t, std::size_t> parts[] = {{0, MIB},  {0, 100},       {100, 4000},
                                                       {4095, 2}, {5000, 70'000}, {MIB - 1, 1}};
  for (const auto& [offset, size] : parts) {
    keys.push_back(add(memory + offset, size));
    ASSERT_NE(keys.back(), 0u) << why_not_;
    const registration& made = *reinterpret_cast<const registration*>(keys.back());
    EXPECT_EQ(made.on[0]->length, size);
    names.push_back(made.on[0]->rkey);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
  EXPECT_EQ(test::open_descriptors(), descriptors_) << "none is kept";
  // The end of one says nothing about the others.
  for (std::size_t i = 0; i < keys.size(); ++i) {
    at(0).deregister_region(keys[i]);
    EXPECT_EQ(card().live().mrs, registrations_ + keys.size() - 1 - i);
  }
}

TEST_F(gpu_ladder_test, memory_without_a_page_of_its_own__goes_by_its_address) {
  EXPECT_EQ(way_of(device_memory(512), 512), "ibv_reg_mr");
}

TEST_F(gpu_ladder_test, memory_that_no_network_takes__is_not_shown_to_the_card) {
  for (const auto kind : {test::mock_memory::managed, test::mock_memory::vmm_without_export})
    EXPECT_EQ(way_of(allocate(kind, 2 * MIB), 2 * MIB), "");
}

}  // namespace
}  // namespace lci::ibv
