// A copy into a packet fails: the message is reported as lost, and its packet is there for the
// next. On the mock only.
#include <cerrno>

#include "tests/accelerator/interface/packets.hpp"
#include "tests/support/mock_cuda/mock_cuda.hpp"
#include "tests/support/mock_gdr/mock_gdr.hpp"

namespace accelerator_test {
namespace {

TEST(failed_copy, packet_comes_home) {
  lci::test::mock_cuda* const mock = lci::test::load_mock_cuda("");
  if (mock == nullptr) GTEST_SKIP() << "the mock driver is not in the path";
  if (lci::get_g_runtime().get_attr_gpu_resident() != 0)
    GTEST_SKIP() << "copies go through the resident kernel, and no call of the driver can fail";
  packet_world w(place::device, 4);
  const auto send = [&](std::uint64_t seed) {
    guarded out(place::host, 100);
    out->fill(seed);
    const lci::post_am_x post(world().rank, out->get(), 100, lci::COMP_NULL, w.rcomp());
    EXPECT_TRUE(lci::post_am_x(post).device(world().device)().is_done());
  };
  const std::uint64_t seed = seed_of(world().rank, next_use());
  send(seed);
  EXPECT_EQ(w.take(pop(w.cq()), 100, seed), "");
  // Where the processor would copy it, that fails first.
  if (lci::test::mock_gdr* const gdr = lci::test::load_mock_gdr(""); gdr != nullptr)
    gdr->fail_nth("gdr_copy_to_mapping", 1, EIO);
  mock->fail_nth("cuMemcpy2DAsync", 1, lci::cuda::abi::result::out_of_memory);
  send(seed);
  std::string text;
  while (text.empty()) {
    try {
      progress();
    } catch (const std::exception& error) {
      text = error.what();
    }
  }
  EXPECT_NE(text.find("100 bytes from rank"), std::string::npos) << text;
  EXPECT_NE(text.find("was not copied to the GPU"), std::string::npos) << text;
  EXPECT_FALSE(lci::cq_pop(w.cq()).is_done());
  EXPECT_EQ(w.count_free(), 4u);
  send(seed + 1);
  EXPECT_EQ(w.take(pop(w.cq()), 100, seed + 1), "");
}

}  // namespace
}  // namespace accelerator_test
