// Memory of GPUs of the mock driver, registered with the fake library: what the provider is told of
// it, and what is left when it or the driver refuses. Of dma-bufs the headers here may know nothing
// (FI_MR_DMABUF came with libfabric 1.20), and the fake library is older than that.
#include <cerrno>
#include <optional>

#include "backends/cuda/engine.hpp"
#include "tests/support/leak_guard.hpp"
#include "tests/support/mock_cuda/mock_cuda.hpp"
#include "tests/support/sizes.hpp"
#include "tests/unit/ofi/domains.hpp"
#include "tests/unit/ofi/kept_regions.hpp"
#include "tests/unit/ofi/world.hpp"

namespace lci::ofi {
namespace {

using test::MIB;

test::mock_cuda& gpus() {
  static test::mock_cuda* const one = test::load_mock_cuda(LCI_MOCK_CUDA);
  return *one;
}
cuda::engine& here() {
  static cuda::engine one(cuda::driver_options{true, LCI_MOCK_CUDA});
  return one;
}
extern const mem::memory_domain NVIDIA, AMD;
const mem::memory_domain NVIDIA = cuda::domain_functions<&here, NVIDIA>::named("cuda", "");
const mem::memory_domain AMD = cuda::domain_functions<&here, AMD>::named("hip", "");

class gpu_region_test : public on_a_network {
 protected:
  gpu_region_test() {
    config_.has_gpu_memory = true;
    fake().reset(config_);
    gpus().reset();
    gpus().start();
    test::domains() = {&NVIDIA, 1};
  }
  ~gpu_region_test() override {
    leave_gpu();
    for (const std::string& leak : gpus().leaks()) ADD_FAILURE() << "left over: " << leak;
    test::domains() = {};
    gpus().reset();
  }

  // As a program does that will use that GPU.
  void choose_gpu(int gpu) {
    cuda::abi::context context = nullptr;
    const cuda::abi::functions* const call = here().d.in_process();
    ASSERT_NE(call, nullptr);
    ASSERT_EQ(call->primary_ctx_retain(&context, gpu), cuda::abi::result::success);
    ASSERT_EQ(call->ctx_push_current(context), cuda::abi::result::success);
    chosen_ = gpu;
  }
  void leave_gpu() {
    if (!chosen_) return;
    cuda::abi::context context = nullptr;
    here().d.in_process()->ctx_pop_current(&context);
    here().d.in_process()->primary_ctx_release(*chosen_);
    chosen_.reset();
  }
  std::byte* device_memory(std::size_t size, int gpu = 0) {
    return static_cast<std::byte*>(gpus().allocate(test::mock_memory::device, size, gpu));
  }
  std::uint64_t add(void* memory, std::size_t size) {
    why_not_.clear();
    return at(0).register_region(memory, size, mem::mem_kind::device, why_not_);
  }
  static std::size_t asked() { return fake().calls("fi_mr_regattr"); }
  void expect_reason(const std::string& part) {
    EXPECT_NE(why_not_.find(part), std::string::npos) << why_not_;
  }

  test::fake_ofi_config config_;
  std::optional<int> chosen_;
  std::string why_not_;
};

// A provider that would rather not is not asked by a program without a GPU.
TEST_F(gpu_region_test, device_memory__where_the_program_and_the_provider_have_it) {
  EXPECT_FALSE(open(1)->caps().device_memory) << "no GPU is chosen";
  choose_gpu(0);
  EXPECT_TRUE(open(1)->caps().device_memory);
  config_.has_gpu_memory = false;
  fake().reset(config_);
  EXPECT_FALSE(open(1)->caps().device_memory);
  test::scoped_env environment;
  environment.set("LCI_FAKE_OFI", "gpu=1,mr=gpu");
  fake().reset_as_environment_says();
  EXPECT_TRUE(open(1)->caps().device_memory);
  leave_gpu();
  EXPECT_THROW(open(1), backend_error) << "it wants each registration to say whose memory it is";
}

TEST_F(gpu_region_test, by_address__says_whose_memory_it_is_and_on_which_device) {
  choose_gpu(0);
  for (const auto& [owner, iface] :
       {std::pair{&NVIDIA, FI_HMEM_CUDA}, std::pair{&AMD, FI_HMEM_ROCR}}) {
    test::domains() = {owner, 1};
    auto g = open(1);
    for (const int gpu : {1, 0}) {
      std::byte* const memory = device_memory(MIB, gpu);
      const std::uint64_t key = add(memory + 256, 5000);
      ASSERT_NE(key, 0u) << why_not_;
      const auto made = fake().gpu_registrations();
      ASSERT_EQ(made.size(), 1u);
      EXPECT_EQ(made[0].address, memory + 256);
      EXPECT_EQ(made[0].size, 5000u);
      EXPECT_EQ(made[0].iface, iface);
      EXPECT_EQ(made[0].device, gpu);
      at(0).deregister_region(key);
      EXPECT_TRUE(fake().gpu_registrations().empty());
      gpus().free(memory);
    }
  }
}

TEST_F(gpu_region_test, host_memory__is_told_to_be_that) {
  choose_gpu(0);
  auto g = open(1);
  std::vector<std::byte> memory(5000);
  const std::uint64_t key =
      at(0).register_region(memory.data(), memory.size(), mem::mem_kind::host, why_not_);
  EXPECT_NE(key, 0u);
  EXPECT_TRUE(fake().gpu_registrations().empty());
  at(0).deregister_region(key);
}

// A peer names the part that was asked for, whichever way the provider counts.
TEST_F(gpu_region_test, target_of__is_the_registered_part) {
  choose_gpu(0);
  for (const int mode : {0, FI_MR_VIRT_ADDR}) {
    config_.mr_mode = mode | FI_MR_HMEM;
    fake().reset(config_);
    auto g = open(1);
    std::byte* const memory = device_memory(MIB);
    const std::uint64_t key = add(memory + 100, 5000);
    at(0).publish({3, 1}, key);
    const net::remote_target there = at(0).target_of({3, 1});
    EXPECT_EQ(there.key, fake().gpu_registrations().at(0).key + 1);
    EXPECT_EQ(there.address, mode == 0 ? 0 : reinterpret_cast<std::uint64_t>(memory + 100));
    at(0).deregister_region(key);
    gpus().free(memory);
  }
}

// No key and every reason: what makes the protocols go through host memory.
TEST_F(gpu_region_test, refused__leaves_nothing_and_says_all_reasons) {
  choose_gpu(0);
  auto g = open(1);
  std::byte* const memory = device_memory(MIB);
  const std::size_t alive = fake().live();
  const auto descriptors = test::open_descriptors();
  fake().fail("fi_mr_regattr", 1, -FI_EINVAL);
  EXPECT_EQ(add(memory, 5000), 0u);
  expect_reason("dma_buf: ");
  expect_reason("peer_memory: ofi fake fake0: fi_mr_regattr on fake fake0");
  EXPECT_EQ(fake().live(), alive);
  EXPECT_EQ(test::open_descriptors(), descriptors);
  const std::size_t before = asked();
  const std::uint64_t key = add(memory, 5000);
  EXPECT_NE(key, 0u) << "one buffer says nothing about the next";
  EXPECT_EQ(asked(), before + 1) << "once";
  at(0).deregister_region(key);
  gpus().free(memory);
}

TEST_F(gpu_region_test, refused_for_good__is_not_asked_again) {
  choose_gpu(0);
  auto g = open(1);
  std::byte* const memory = device_memory(MIB);
  std::byte* const other = device_memory(MIB, 1);
  fake().fail("fi_mr_regattr", 1, -FI_ENOSYS);
  EXPECT_EQ(add(memory, 5000), 0u);
  const std::size_t before = asked();
  EXPECT_EQ(add(memory, 6000), 0u);
  expect_reason("fi_mr_regattr on fake fake0");
  EXPECT_EQ(asked(), before);
  const std::uint64_t key = add(other, 5000);
  EXPECT_NE(key, 0u) << "it holds for the one GPU";
  at(0).deregister_region(key);
  gpus().free(memory);
  gpus().free(other);
}

TEST_F(gpu_region_test, domain_that_was_opened_without__refuses) {
  auto g = open(1);
  std::byte* const memory = device_memory(MIB);
  EXPECT_EQ(add(memory, 5000), 0u);
  expect_reason("fi_mr_regattr on fake fake0");
  gpus().free(memory);
}

// With the cache: while a buffer lives it is registered once, whoever asks for which part of it.
class kept_gpu_region_test : public gpu_region_test {
 protected:
  void open_regions() {
    choose_gpu(0);
    kept_.open();
    ASSERT_TRUE(kept_.all->is_keeping());
  }
  std::uint64_t keep(void* memory, std::size_t size) {
    return kept_.all->add(memory, size, mem::mem_kind::device, why_not_);
  }
  kept_regions kept_;
};

TEST_F(kept_gpu_region_test, same_buffer__is_registered_once) {
  open_regions();
  std::byte* const memory = device_memory(MIB);
  const std::uint64_t first = keep(memory, MIB);
  ASSERT_NE(first, 0u) << why_not_;
  const std::uint64_t part = keep(memory + 5000, 100);
  EXPECT_EQ(fake().gpu_registrations().size(), 1u);
  kept_.all->remove(first);
  kept_.all->remove(part);
  kept_.all->remove(keep(memory, MIB));
  EXPECT_EQ(asked(), 1u);
  // Others behind the same addresses are not what was registered.
  gpus().free(memory);
  std::byte* const again = device_memory(MIB);
  EXPECT_EQ(again, memory) << "the driver gives the addresses out again";
  kept_.all->remove(keep(again, MIB));
  EXPECT_EQ(asked(), 2u);
  EXPECT_EQ(fake().gpu_registrations().size(), 1u) << "the old one is gone";
  gpus().free(again);
}

TEST_F(kept_gpu_region_test, no_room__what_is_kept_goes_for_it) {
  open_regions();
  std::byte* const unused = device_memory(MIB);
  std::byte* const memory = device_memory(MIB);
  kept_.all->remove(keep(unused, MIB));
  fake().fail("fi_mr_regattr", 1, -FI_ENOMEM);
  const std::uint64_t key = keep(memory, MIB);
  EXPECT_NE(key, 0u) << why_not_;
  const auto made = fake().gpu_registrations();
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].address, memory);
  kept_.all->remove(key);
  gpus().free(unused);
  gpus().free(memory);
}

}  // namespace
}  // namespace lci::ofi
