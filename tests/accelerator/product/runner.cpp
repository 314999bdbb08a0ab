#include "tests/accelerator/product/runner.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/accelerator/gpu_kernels.hpp"
#include "tests/accelerator/real_gpu.hpp"

#ifdef LCI_HAVE_TEST_KERNELS
extern const unsigned char lci_test_product_threads[];
extern const unsigned char lci_test_product_warps[];
extern const unsigned char lci_test_product_blocks[];
#endif

namespace product_test {
namespace {

namespace abi = lci::cuda::abi;
using lci::cuda::real_gpu;

template <class Function>
Function driver_call(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name));
}

std::string failed(const char* call, abi::result answer) {
  return std::string(call) + ": error " + std::to_string(static_cast<int>(answer));
}

[[maybe_unused]] std::string load(const unsigned char* image, const char* name, void** kernel) {
  void* module = nullptr;
  abi::result answer =
      driver_call<abi::result (*)(void**, const void*)>("cuModuleLoadData")(&module, image);
  if (answer != abi::result::success) return failed("cuModuleLoadData", answer);
  answer = driver_call<abi::result (*)(void**, void*, const char*)>("cuModuleGetFunction")(
      kernel, module, name);
  return answer == abi::result::success ? "" : failed("cuModuleGetFunction", answer);
}

void* plain(std::size_t size) {
  void* const at = std::aligned_alloc(256, (size + 255) / 256 * 256);
  if (at == nullptr) throw std::bad_alloc();
  return std::memset(at, 0, size);
}

}  // namespace

const char* name_of(scope of) {
  return of == scope::thread ? "threads" : of == scope::warp ? "warps" : "blocks";
}

runner& runner::get() {
  static runner one;
  return one;
}

runner::~runner() {
  for (std::thread& one : threads_) one.join();
}

std::string runner::use_gpu(int rank) {
#ifdef LCI_HAVE_TEST_KERNELS
  real_gpu& gpu = real_gpu::of_rank(rank);
  const std::pair<const unsigned char*, const char*> images[] = {
      {lci_test_product_threads, "lci_test_product_thread"},
      {lci_test_product_warps, "lci_test_product_warp"},
      {lci_test_product_blocks, "lci_test_product_block"}};
  for (int i = 0; i < 3; ++i) {
    const std::string why = load(images[i].first, images[i].second, &kernels_[i]);
    if (!why.empty()) return why;
  }
  constexpr unsigned NON_BLOCKING = 1;
  abi::stream stream = nullptr;
  const abi::result answer = gpu.d.call().stream_create(&stream, NON_BLOCKING);
  if (answer != abi::result::success) return failed("cuStreamCreate", answer);
  stream_ = stream;
  gpu_ = gpu.ordinal();
  return "";
#else
  (void)rank;
  return "compiled without LCI_USE_CUDA";
#endif
}

void* runner::allocate(std::size_t size) {
  if (!is_gpu()) return plain(size);
  void* const at = real_gpu::get().allocate(real_gpu::kind::device, size);
  real_gpu::get().write(at, std::vector<std::byte>(size));
  return at;
}
void* runner::pinned(std::size_t size) {
  if (!is_gpu()) return plain(size);
  return std::memset(real_gpu::get().allocate(real_gpu::kind::pinned, size), 0, size);
}
void runner::free(void* of_gpu, std::size_t size) {
  if (!is_gpu()) return std::free(of_gpu);
  real_gpu::get().free(real_gpu::kind::device, of_gpu, size);
}
void runner::free_pinned(void* at, std::size_t size) {
  if (!is_gpu()) return std::free(at);
  real_gpu::get().free(real_gpu::kind::pinned, at, size);
}
void runner::write(void* of_gpu, const void* from, std::size_t size) {
  if (!is_gpu()) return static_cast<void>(std::memcpy(of_gpu, from, size));
  const auto* const bytes = static_cast<const std::byte*>(from);
  real_gpu::get().write(of_gpu, {bytes, bytes + size});
}
std::vector<std::byte> runner::read(const void* of_gpu, std::size_t size) {
  if (is_gpu()) return real_gpu::get().read(of_gpu, size);
  const auto* const bytes = static_cast<const std::byte*>(of_gpu);
  return {bytes, bytes + size};
}

unsigned runner::threads(scope of, bool only_one) {
  if (of == scope::thread) return only_one ? 1 : 32;
  return of == scope::warp && only_one ? 32 : 64;
}
std::uint64_t runner::members(scope of, bool only_one) const {
  return is_gpu() ? blocks(only_one) * threads(of, only_one) : callers(of, only_one);
}
std::uint64_t runner::callers(scope of, bool only_one) const {
  if (only_one) return 1;
  if (!is_gpu()) return of == scope::thread ? 4 : 2;
  return of == scope::thread ? members(of, false) : of == scope::warp ? 4 : 2;
}

void runner::start(scope of, bool only_one, const product::task& task) {
  if (is_gpu()) {
    using launch_fn = abi::result (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned,
                                      unsigned, unsigned, void*, void**, void**);
    product::task copy = task;
    void* all[] = {&copy};
    ASSERT_EQ(driver_call<launch_fn>("cuLaunchKernel")(
                  kernels_[static_cast<int>(of)], blocks(only_one), 1, 1, threads(of, only_one), 1,
                  1, 0, stream_, all, nullptr),
              abi::result::success);
    return;
  }
  const std::uint64_t count = callers(of, only_one);
  running_.store(count);
  for (std::uint64_t i = 0; i < count; ++i)
    threads_.emplace_back([this, of, task, i] {
      const product::caller who{i};
      task.faults[i] = of == scope::thread ? product::run<lci::gpu::thread>(task, who)
                       : of == scope::warp ? product::run<lci::gpu::warp>(task, who)
                                           : product::run<lci::gpu::block>(task, who);
      running_.fetch_sub(1);
    });
}

bool runner::is_over() {
  if (is_gpu()) {
    const abi::result answer =
        real_gpu::get().d.call().stream_query(static_cast<abi::stream>(stream_));
    if (answer == abi::result::not_ready) return false;
    EXPECT_EQ(answer, abi::result::success) << "a kernel";
    return true;
  }
  if (running_.load() != 0) return false;
  for (std::thread& one : threads_) one.join();
  threads_.clear();
  return true;
}

}  // namespace product_test
