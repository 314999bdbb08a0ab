// The attribute gpu_resident: with it small messages go through a kernel that stays on the GPU. The
// rest of the suite runs with it too.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/accelerator/interface/common.hpp"
#include "tests/support/mock_cuda/mock_cuda.hpp"

namespace accelerator_test {
namespace {

TEST(resident, is_off_unless_asked_for) {
  const char* const asked = std::getenv("LCI_ATTR_GPU_RESIDENT");
  EXPECT_EQ(lci::get_g_runtime().get_attr_gpu_resident(), asked == nullptr ? 0 : std::atoi(asked));
}

TEST(resident, blocks__that_no_gpu_has_are_refused) {
  for (const int blocks : {-1, 65})
    EXPECT_THROW(lci::alloc_runtime_x().gpu_resident(blocks)(), lci::argument_error) << blocks;
}

// A runtime of its own, whose first use of GPU memory says it.
TEST(resident, without_device_code__says_how_to_get_it) {
#ifdef LCI_USE_CUDA
  GTEST_SKIP() << "this library has device code";
#endif
  lci::runtime_t runtime = lci::alloc_runtime_x().gpu_resident(4)();
  EXPECT_EQ(runtime.get_attr_gpu_resident(), 4);
  block memory(place::device, 4096);
  try {
    lci::mr_t mr = lci::register_memory_x(memory.get(), memory.size()).runtime(runtime)();
    ADD_FAILURE() << "registered";
    lci::deregister_memory(&mr);
  } catch (const lci::backend_error& error) {
    EXPECT_NE(std::string(error.what()).find("-DLCI_USE_CUDA=ON"), std::string::npos)
        << error.what();
  }
  lci::free_runtime(&runtime);
}

// Slots of one size in one block. What looks at them waits for the GPU, and so for the kernel to
// end: they are filled before the messages and compared after the last.
class row {
 public:
  static constexpr std::size_t COUNT = 16;
  explicit row(std::size_t size) : memory_(place::device, COUNT * pitch_of(size)) {
    for (std::size_t i = 0; i < COUNT; ++i)
      slots_.emplace_back(memory_, i * pitch_of(size) + slot::GUARD, size);
  }
  const slot& at(std::size_t i) const { return slots_[i]; }

 private:
  static std::size_t pitch_of(std::size_t size) {
    return (size + 2 * slot::GUARD + 127) / 128 * 128;
  }
  block memory_;
  std::vector<slot> slots_;
};

// One message at a time, so that each finds the kernel running or starts it; now and then after a
// pause in which it ends.
TEST(resident, carries_messages_and_is_not_missed_when_it_ends) {
  lci::test::mock_cuda* const mock = lci::test::load_mock_cuda("");
  if (mock != nullptr) mock->forget_counts();
  for (const std::size_t size : {8, 12, 5000, 8192, 100000, 300000}) {
    const row out(size), in(size);
    const owned_comp received(lci::alloc_counter());
    std::int64_t expected = 0;
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t use = next_use() * row::COUNT;
      for (std::size_t i = 0; i < row::COUNT; ++i) {
        out.at(i).fill(seed_of(world().rank, use + i));
        in.at(i).clear(seed_of(world().previous(), use + i));
      }
      for (std::size_t i = 0; i < row::COUNT; ++i) {
        if (round % 5 == 4 && i == 8) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        post(lci::post_recv_x(world().previous(), in.at(i).get(), size, use + i, received)
                 .mr(lci::MR_DEVICE));
        post_and_wait(
            lci::post_send_x(world().next(), out.at(i).get(), size, use + i, lci::COMP_NULL)
                .mr(lci::MR_DEVICE));
        ++expected;
        wait_until([&] { return lci::counter_get(received) == expected; });
      }
      for (std::size_t i = 0; i < row::COUNT; ++i)
        ASSERT_EQ(in.at(i).check(seed_of(world().previous(), use + i)), "") << size << ", " << i;
    }
  }
  if (mock == nullptr || lci::get_g_runtime().get_attr_gpu_resident() == 0) return;
  EXPECT_GT(mock->count("lci_resident_copy"), 100u);
  EXPECT_GT(mock->count("cuLaunchKernel"), 1u);
  EXPECT_GT(mock->count("cuMemcpyAsync"), 0u) << "meanwhile the copy engine does it";
}

}  // namespace
}  // namespace accelerator_test
