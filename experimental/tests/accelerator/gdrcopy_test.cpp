// The attribute gpu_gdrcopy: where gdrcopy is, small messages are copied by the processor and take
// no copy of the GPU. The rest of the suite runs with it too, on a mock of the library.
#include <cstdlib>
#include <cstring>

#include "tests/accelerator/interface/common.hpp"
#include "tests/support/mock_cuda/mock_cuda.hpp"
#include "tests/support/mock_gdr/mock_gdr.hpp"

namespace accelerator_test {
namespace {

bool says(const char* variable, const char* value) {
  const char* const text = std::getenv(variable);
  return text != nullptr && std::strcmp(text, value) == 0;
}

// Copies that were handed to the GPU, in whatever form.
std::size_t copies(lci::test::mock_cuda& mock) {
  return mock.count("cuMemcpyAsync") + mock.count("cuMemcpy2DAsync") +
         mock.count("cuMemcpyBatchAsync") + mock.count("cuStreamBatchMemOp");
}

// One message from each rank, between GPUs; the copies that this rank's GPU was asked for.
std::size_t copies_of_a_message(lci::test::mock_cuda& mock, std::size_t size) {
  const guarded out(place::device, size), in(place::device, size);
  const std::uint64_t use = next_use();
  out->fill(seed_of(world().rank, use));
  in->clear(seed_of(world().previous(), use));
  const owned_comp received(lci::alloc_counter());
  barrier();
  mock.forget_counts();
  post(lci::post_recv_x(world().previous(), in->get(), size, use, received).mr(lci::MR_DEVICE));
  post_and_wait(
      lci::post_send_x(world().next(), out->get(), size, use, lci::COMP_NULL).mr(lci::MR_DEVICE));
  wait_until([&] { return lci::counter_get(received) == 1; });
  const std::size_t seen = copies(mock);
  barrier();
  EXPECT_EQ(in->check(seed_of(world().previous(), use)), "") << size;
  return seen;
}

TEST(gdrcopy, small_message__takes_no_copy_of_the_gpu) {
  lci::test::mock_cuda* const mock = lci::test::load_mock_cuda("");
  if (mock == nullptr) GTEST_SKIP() << "a real driver counts no calls";
  if (lci::get_g_runtime().get_attr_gpu_resident() != 0)
    GTEST_SKIP() << "the resident kernel copies";
  // Loaded by the library at the first use of GPU memory, unless it was told not to.
  copies_of_a_message(*mock, 100);
  lci::test::mock_gdr* const gdr = lci::test::load_mock_gdr("");
  const bool is_used = gdr != nullptr && !says("LCI_ATTR_GPU_GDRCOPY", "off") &&
                       !says("LCI_ATTR_GPU_PATH", "direct");
  for (const std::size_t size : {1, 8, 100, 1024}) {
    const std::size_t seen = copies_of_a_message(*mock, size);
    if (is_used)
      EXPECT_EQ(seen, 0u) << size;
    else if (says("LCI_ATTR_GPU_PATH", "staged"))
      EXPECT_EQ(seen, 2u) << size << ": out of the GPU, and into it";
    else
      EXPECT_EQ(seen, 1u) << size;
  }
  EXPECT_GE(copies_of_a_message(*mock, 5000), 1u) << "too much to be read by the processor";
}

TEST(gdrcopy, host_message_into_gpu_memory__takes_none_either) {
  lci::test::mock_cuda* const mock = lci::test::load_mock_cuda("");
  lci::test::mock_gdr* const gdr = lci::test::load_mock_gdr("");
  if (mock == nullptr || gdr == nullptr || says("LCI_ATTR_GPU_GDRCOPY", "off"))
    GTEST_SKIP() << "there is no gdrcopy here";
  for (const std::size_t size : {1, 4, 100, 4096}) {
    const guarded out(place::host, size), in(place::device, size);
    const std::uint64_t use = next_use();
    out->fill(seed_of(world().rank, use));
    in->clear(seed_of(world().previous(), use));
    barrier();
    mock->forget_counts();
    gdr->forget_counts();
    const owned_comp received(lci::alloc_counter());
    post(lci::post_recv_x(world().previous(), in->get(), size, use, received).mr(lci::MR_DEVICE));
    post_and_wait(lci::post_send_x(world().next(), out->get(), size, use, lci::COMP_NULL));
    wait_until([&] { return lci::counter_get(received) == 1; });
    EXPECT_EQ(copies(*mock), 0u) << size;
    EXPECT_EQ(gdr->count("gdr_copy_to_mapping"), 1u) << size;
    barrier();
    EXPECT_EQ(in->check(seed_of(world().previous(), use)), "") << size;
  }
}

// What is held of gdrcopy, if it was loaded.
std::vector<std::string> held() {
  lci::test::mock_gdr* const gdr = lci::test::load_mock_gdr("");
  return gdr == nullptr ? std::vector<std::string>{} : gdr->leaks();
}

// A runtime of its own, whose first use of GPU memory decides; what it opened goes with it.
TEST(gdrcopy, on__is_an_error_where_it_is_not) {
  if (lci::test::load_mock_cuda("") == nullptr) GTEST_SKIP() << "it may be here or not";
  const std::vector<std::string> before = held();
  lci::runtime_t runtime = lci::alloc_runtime_x().gpu_gdrcopy(lci::attr_gpu_gdrcopy_t::on)();
  EXPECT_EQ(runtime.get_attr_gpu_gdrcopy(), lci::attr_gpu_gdrcopy_t::on);
  block memory(place::device, 4096);
  try {
    lci::mr_t mr = lci::register_memory_x(memory.get(), memory.size()).runtime(runtime)();
    EXPECT_NE(lci::test::load_mock_gdr(""), nullptr) << "registered without it";
    EXPECT_NE(held(), before);
    lci::deregister_memory(&mr);
  } catch (const lci::backend_error& error) {
    EXPECT_EQ(lci::test::load_mock_gdr(""), nullptr) << error.what();
    EXPECT_NE(std::string(error.what()).find("gpu_gdrcopy is on, but"), std::string::npos)
        << error.what();
  }
  lci::free_runtime(&runtime);
  EXPECT_EQ(held(), before);
}

// Allocated, used and freed, over and over at the same addresses.
TEST(gdrcopy, memory_that_comes_and_goes__is_never_taken_for_what_was_there) {
  for (int round = 0; round < 50; ++round) {
    const std::size_t size = round % 2 == 0 ? 64 : 1000;
    const guarded out(place::device, size), in(place::device, size);
    ASSERT_EQ(send_around(out, in, size), "") << round;
  }
}

}  // namespace
}  // namespace accelerator_test
