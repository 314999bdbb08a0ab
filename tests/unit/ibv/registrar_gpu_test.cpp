// GPU memory of the mock driver, registered with the fake card: both ends of the ladder as they
// are, so that what one hands out is what the other takes.
#include <dlfcn.h>

#include <algorithm>
#include <cerrno>

#include "backends/cuda/engine.hpp"
#include "tests/support/leak_guard.hpp"
#include "tests/support/mock_cuda/mock_cuda.hpp"
#include "tests/support/sizes.hpp"
#include "tests/unit/ibv/domains.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

using lci::test::MIB;

test::mock_cuda& gpus() {
  static test::mock_cuda* const one = test::load_mock_cuda(LCI_MOCK_CUDA);
  return *one;
}
cuda::engine& here() {
  static cuda::engine one(cuda::driver_options{true, LCI_MOCK_CUDA});
  return one;
}
extern const mem::memory_domain GPU;
const mem::memory_domain GPU = cuda::domain_functions<&here, GPU>::named("cuda", "");

class gpu_ladder_test : public on_a_card {
 protected:
  gpu_ladder_test() {
    // As the real one is where there is a card of that maker.
    card();
    static void* const mlx5 = dlopen(LCI_FAKE_MLX5, RTLD_NOW | RTLD_LOCAL);
    if (mlx5 == nullptr) throw std::runtime_error(dlerror());
    gpus().reset({.pcie_dma_buf = true});
    gpus().start();
    test::domains() = {&GPU, 1};
    world_ = open(2);
    descriptors_ = test::open_descriptors();
    registrations_ = card().live().mrs;
  }
  ~gpu_ladder_test() override {
    EXPECT_EQ(test::open_descriptors(), descriptors_);
    EXPECT_EQ(card().live().mrs, registrations_);
    world_.reset();
    for (const std::string& leak : gpus().leaks()) ADD_FAILURE() << "left over: " << leak;
    test::domains() = {};
    gpus().reset();
  }
  // The mock keeps a descriptor of its own for each.
  void* allocate(test::mock_memory kind, std::size_t size) {
    void* const memory = gpus().allocate(kind, size);
    descriptors_ = test::open_descriptors();
    return memory;
  }
  void* device_memory(std::size_t size) { return allocate(test::mock_memory::device, size); }
  std::uint64_t add(void* memory, std::size_t size) {
    why_not_.clear();
    return at(0).register_region(memory, size, mem::mem_kind::device, why_not_);
  }
  // Registers and deregisters; by which calls the card was asked.
  std::string way_of(void* memory, std::size_t size) {
    card().forget_counts();
    at(0).deregister_region(add(memory, size));
    std::string out;
    for (const char* call : {"mlx5dv_reg_dmabuf_mr", "ibv_reg_dmabuf_mr", "ibv_reg_mr"})
      if (card().count(call) != 0) out += std::string(out.empty() ? "" : " ") + call;
    return out;
  }

  std::unique_ptr<test::group> world_;
  std::string why_not_;
  std::vector<std::string> descriptors_;
  std::size_t registrations_ = 0;
};

TEST_F(gpu_ladder_test, each_rung__when_those_above_are_refused) {
  void* const memory = device_memory(MIB);
  // The fake's Data Direct ends in the plain call.
  EXPECT_EQ(way_of(memory, MIB), "mlx5dv_reg_dmabuf_mr ibv_reg_dmabuf_mr");
  card().fail_nth("mlx5dv_reg_dmabuf_mr", 1, ENOMEM);
  EXPECT_EQ(way_of(memory, MIB), "mlx5dv_reg_dmabuf_mr ibv_reg_dmabuf_mr");
  card().fail_nth("mlx5dv_reg_dmabuf_mr", 1, ENODEV);
  way_of(memory, MIB);
  EXPECT_EQ(way_of(memory, MIB), "ibv_reg_dmabuf_mr") << "no such function: known from now on";
  card().fail_nth("ibv_reg_dmabuf_mr", 1, EINVAL);
  EXPECT_EQ(way_of(memory, MIB), "ibv_reg_dmabuf_mr ibv_reg_mr");
  card().fail_nth("ibv_reg_dmabuf_mr", 1, EOPNOTSUPP);
  way_of(memory, MIB);
  EXPECT_EQ(way_of(memory, MIB), "ibv_reg_mr");
  card().fail_nth("ibv_reg_mr", 1, EFAULT);
  EXPECT_EQ(add(memory, MIB), 0u);
  for (const char* text :
       {"data_direct: ibv fake_0:1: mlx5dv_reg_dmabuf_mr on fake_0:1: No such device [19]",
        "dma_buf: ibv fake_0:1: ibv_reg_dmabuf_mr on fake_0:1: Operation not supported [95]",
        "peer_memory: ibv fake_0:1: ibv_reg_mr on fake_0:1: Bad address [14]"})
    EXPECT_NE(why_not_.find(text), std::string::npos) << why_not_;
}

TEST_F(gpu_ladder_test, driver_that_refuses_a_buffer__is_asked_for_the_next) {
  void* const memory = device_memory(MIB);
  const auto refuse = [](int n) {
    gpus().fail_nth("cuMemGetHandleForAddressRange", n, cuda::abi::result::invalid_value);
  };
  refuse(1);
  EXPECT_EQ(way_of(memory, MIB), "ibv_reg_dmabuf_mr");
  card().fail_nth("mlx5dv_reg_dmabuf_mr", 1, ENODEV);
  way_of(memory, MIB);
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
