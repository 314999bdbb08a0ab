// GPU memory that a card takes by Data Direct, and the rungs below where it refuses; the reasons of
// all stand together.
#include "backends/ibv/data_direct.hpp"

#include <dlfcn.h>

#include <cerrno>

#include "tests/unit/ibv/gpu_ladder_world.hpp"

namespace lci::ibv {
namespace {

class data_direct_test : public on_a_gpu_ladder {
 protected:
  data_direct_test() : on_a_gpu_ladder("auto") {
    // As the real one is where there is a card of that maker.
    static void* const mlx5 = dlopen(LCI_FAKE_MLX5, RTLD_NOW | RTLD_LOCAL);
    if (mlx5 == nullptr) throw std::runtime_error(dlerror());
  }
};

TEST_F(data_direct_test, each_rung__when_those_above_are_refused) {
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

TEST_F(data_direct_test, driver_that_refuses_a_buffer__is_asked_for_the_next) {
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

}  // namespace
}  // namespace lci::ibv
