// GPU memory of the mock driver and the fake card: both ends of the ladder as they are, so that
// what one hands out is what the other takes. Threads: the test's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/engine.hpp"
#include "tests/support/leak_guard.hpp"
#include "tests/support/mock_cuda/mock_cuda.hpp"
#include "tests/support/sizes.hpp"
#include "tests/unit/ibv/domains.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {

using lci::test::MIB;

inline test::mock_cuda& gpus() {
  static test::mock_cuda* const one = test::load_mock_cuda(LCI_MOCK_CUDA);
  return *one;
}
inline cuda::engine& gpu_engine() {
  static cuda::engine one(cuda::driver_options{true, LCI_MOCK_CUDA});
  return one;
}
extern const mem::memory_domain LADDER_GPU;

class on_a_gpu_ladder : public on_a_card {
 protected:
  // rules: as LCI_GPU_REGISTRATION says them.
  explicit on_a_gpu_ladder(const char* rules) {
    card();
    gpus().reset({.pcie_dma_buf = true});
    gpus().start();
    test::domains() = {&LADDER_GPU, 1};
    world_ = open(2, 1, [rules](net::fabric_config& config) {
      config.gpu_rules = mem::ladder_rules::parse(true, "LCI_GPU_REGISTRATION", rules);
    });
    descriptors_ = test::open_descriptors();
    registrations_ = card().live().mrs;
  }
  ~on_a_gpu_ladder() override {
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

}  // namespace lci::ibv
