// The kernels that make and compare contents see what is there, and a kernel that runs already sees
// what a completed operation brought.
#include "tests/accelerator/gpu_kernels.hpp"
#include "tests/accelerator/interface/common.hpp"

namespace accelerator_test {
namespace {

using lci::cuda::gpu_kernels;
using lci::test::verdict;

class kernels : public testing::TestWithParam<place> {
 protected:
  void SetUp() override {
    if (gpu_kernels::get() == nullptr) GTEST_SKIP() << gpu_kernels::announcement();
  }
  static contents at(const block& memory, std::size_t offset, contents what) {
    what.at = reinterpret_cast<unsigned char*>(memory.get()) + offset;
    return what;
  }
};

constexpr std::size_t KERNEL_SIZES[] = {
    1, 2, 7, 8, 255, 257, 4096, 70001, (std::size_t{1} << 20) + 5};
constexpr std::size_t OFFSET = 3;  // neither buffer nor pattern is aligned to a word

TEST_P(kernels, kernels_see_one_wrong_byte) {
  for (const std::size_t size : KERNEL_SIZES) {
    block memory(GetParam(), size + 2 * OFFSET);
    const std::uint64_t seed = seed_of(world().rank, next_use());
    const contents what = at(memory, OFFSET, {nullptr, size, seed, 0, size});
    const std::vector<std::byte> good = bytes_of(seed, size);
    memory.write(OFFSET, good);
    EXPECT_EQ(gpu_kernels::get()->compare(what).wrong, 0u) << size;
    for (const std::size_t wrong : {std::size_t{0}, size / 2, size - 1}) {
      memory.write(OFFSET + wrong, {good[wrong] ^ std::byte{0x10}});
      const verdict said = gpu_kernels::get()->compare(what);
      EXPECT_EQ(said.wrong, 1u) << size;
      EXPECT_EQ(said.first, wrong) << size;
      memory.write(OFFSET + wrong, {good[wrong]});
    }
    EXPECT_EQ(gpu_kernels::get()->compare(what).wrong, 0u) << size;
    contents other = what;
    ++other.seed;
    EXPECT_GT(gpu_kernels::get()->compare(other).wrong, size / 2) << "another use of the buffer";
  }
}

TEST_P(kernels, fill_what_the_processor_expects_and_no_byte_more) {
  for (const std::size_t size : KERNEL_SIZES) {
    block memory(GetParam(), size + 2 * OFFSET);
    const std::uint64_t seed = seed_of(world().rank, next_use());
    const std::vector<std::byte> before(size + 2 * OFFSET, std::byte{0x5a});
    memory.write(0, before);
    const contents what =
        at(memory, OFFSET, {nullptr, size, seed, size / 3, size - size / 4, slot::GUARD / 8});
    gpu_kernels::get()->fill(what);
    EXPECT_EQ(gpu_kernels::get()->compare(what).wrong, 0u) << size;
    std::vector<std::byte> expected = before;
    lci::test::fill_here(what, reinterpret_cast<unsigned char*>(expected.data() + OFFSET));
    EXPECT_EQ(memory.read(0, expected.size()), expected) << size;
  }
}

constexpr std::uint64_t PATIENCE = 20'000'000'000;  // ns: nobody waits for a test for ever

// The rule for kernels that poll: a word that the host writes after the completion.
TEST_P(kernels, that_run_already__see_a_message_once_the_host_tells_them) {
  for (const std::size_t size : {std::size_t{8}, std::size_t{5000}, std::size_t{300001}}) {
    guarded from(GetParam(), size), to(GetParam(), size);
    for (int round = 0; round < 4; ++round) {
      const std::uint64_t use = next_use(), seed = seed_of(world().previous(), use);
      from->fill(seed_of(world().rank, use));
      to->clear(seed);
      contents what = message_of(seed, size);
      what.at = static_cast<unsigned char*>(to->get());
      // The first message makes streams and mappings, which may wait for the GPU.
      const bool polls = round > 0;
      if (polls) gpu_kernels::get()->begin(what, PATIENCE);
      const owned_comp done(lci::alloc_counter());
      post(lci::post_recv_x(world().previous(), to->get(), size, use, done).mr(lci::MR_DEVICE));
      post(lci::post_send_x(world().next(), from->get(), size, use, done).mr(lci::MR_DEVICE));
      wait_until([&] { return lci::counter_get(done) == 2; });
      if (polls) gpu_kernels::get()->tell();
      const verdict said = polls ? gpu_kernels::get()->end() : gpu_kernels::get()->compare(what);
      ASSERT_EQ(said.gave_up, 0u) << size;
      ASSERT_EQ(said.wrong, 0u) << size << " bytes, the first wrong one " << said.first;
      barrier();
    }
  }
}

// Must fire: told too early, it says that nothing has come; not told, that it gave up.
TEST_P(kernels, that_run_already__told_before_the_message_comes) {
  constexpr std::size_t SIZE = 5000;
  guarded to(GetParam(), SIZE);
  const std::uint64_t seed = seed_of(world().previous(), next_use());
  to->clear(seed);
  contents what = message_of(seed, SIZE);
  what.at = static_cast<unsigned char*>(to->get());
  gpu_kernels::get()->begin(what, PATIENCE);
  gpu_kernels::get()->tell();
  const verdict early = gpu_kernels::get()->end();
  EXPECT_EQ(early.wrong, SIZE);
  EXPECT_EQ(early.gave_up, 0u);
  gpu_kernels::get()->begin(what, 1'000'000);
  EXPECT_EQ(gpu_kernels::get()->end().gave_up, 1u);
}

INSTANTIATE_TEST_SUITE_P(memory, kernels, testing::ValuesIn(GPU_PLACES),
                         [](const auto& one) { return std::string(name_of(one.param)); });

}  // namespace
}  // namespace accelerator_test
