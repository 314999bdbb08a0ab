// Ranks on one GPU whose kernels make calls: endpoints without a proxy, kernels of
// tests/support/device_code, and memory of both kinds. Callers: gpu_calls_test and gpu_storm_test.
// Threads: single; it drives the cards while kernels run. Always true: skipped with the reason
// where there are no kernels: no nvcc, another GPU than they are compiled for, or the mock driver,
// which runs no device code.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "lci/device/memory_world.hpp"
#include "tests/accelerator/gpu_kernels.hpp"
#include "tests/accelerator/real_gpu.hpp"
#include "tests/support/device_code/gpu_calls.hpp"
#include "tests/support/device_code/gpu_endpoints.hpp"

#ifdef LCI_HAVE_TEST_KERNELS
extern const unsigned char lci_test_gpu_call_kernels[];
#endif

namespace lci::test {

using cuda::is_other_gpu;
using cuda::real_gpu;
using gpu::status;
namespace abi = cuda::abi;

template <class Function>
Function gpu_driver_call(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name));
}

class real_memory final : public gpu_memory {
 public:
  ~real_memory() override {
    for (const block& b : blocks_) real_gpu::get().free(b.what, b.at, b.size);
  }
  void* of_gpu(std::size_t size) override {
    void* const at = take(real_gpu::kind::device, size);
    real_gpu::get().write(at, std::vector<std::byte>(size));
    return at;
  }
  void* pinned(std::size_t size) override {
    return std::memset(take(real_gpu::kind::pinned, size), 0, size);
  }
  void write(void* gpu, const void* from, std::size_t size) override {
    const auto* const bytes = static_cast<const std::byte*>(from);
    real_gpu::get().write(gpu, {bytes, bytes + size});
  }
  template <class T>
  T* pinned_array(std::size_t count) {
    return static_cast<T*>(pinned(count * sizeof(T)));
  }
  template <class T>
  T read(const T* gpu) {
    T out;
    std::memcpy(&out, real_gpu::get().read(gpu, sizeof(T)).data(), sizeof(T));
    return out;
  }

 private:
  struct block {
    real_gpu::kind what;
    void* at;
    std::size_t size;
  };
  void* take(real_gpu::kind what, std::size_t size) {
    blocks_.push_back({what, real_gpu::get().allocate(what, size), size});
    return blocks_.back().at;
  }
  std::vector<block> blocks_;
};

class gpu_calls : public testing::Test {
 protected:
  static constexpr std::size_t MEMORY = 1 << 22;
  enum class way { direct, requests };

  void SetUp() override {
#ifdef LCI_HAVE_TEST_KERNELS
    real_gpu::get();
    const auto load = gpu_driver_call<abi::result (*)(void**, const void*)>("cuModuleLoadData");
    const abi::result answer = load(&module_, lci_test_gpu_call_kernels);
    if (is_other_gpu(answer))
      GTEST_SKIP() << "cuModuleLoadData: error " << static_cast<int>(answer);
    ASSERT_EQ(answer, abi::result::success) << "cuModuleLoadData";
    if (kernel("lci_test_calls_block") == nullptr) {
      if (std::getenv("LCI_MOCK_CUDA_ENGINE") == nullptr) FAIL() << "no kernels in the module";
      GTEST_SKIP() << "the mock driver runs no device code";
    }
    memory_.emplace();
#else
    GTEST_SKIP() << "there was no nvcc when this was built";
#endif
  }
  void TearDown() override {
    ends_.reset();
    memory_.reset();
    if (module_ != nullptr) gpu_driver_call<abi::result (*)(void*)>("cuModuleUnload")(module_);
  }
  // Two ranks on one GPU; requests find each rank's pinned memory.
  void make(gpu_endpoint_options options = {}) {
    ends_.emplace(*memory_, options, [](int, int, device::key_table& keys) {
      return std::make_unique<device::memory_world>(keys, nullptr, 1);
    });
    for (int i = 0; i < 2; ++i) {
      in_gpu_[i] = static_cast<unsigned char*>(memory_->of_gpu(MEMORY));
      pinned_[i] = static_cast<unsigned char*>(memory_->pinned(MEMORY));
      pinned_key_[i] = ends_->register_pinned(i, pinned_[i], MEMORY);
    }
  }
  gpu::place_t place(int rank, std::uint64_t offset, way how) {
    const auto address = reinterpret_cast<std::uintptr_t>(in_gpu_[rank]);
    gpu::key_t direct{address, MEMORY, address, 0, rank};
    direct.is_near = offset % 2 == 0;  // both ways are right here
    return {how == way::direct ? direct : pinned_key_[rank], offset};
  }
  // Of the calling rank: its kernels reach it in any case.
  gpu::place_t own(int rank, std::uint64_t offset, way how) {
    gpu::place_t at = place(rank, offset, how);
    at.key.mapped = at.key.base;
    return at;
  }
  unsigned char* bytes(int rank, way how) {
    return how == way::direct ? in_gpu_[rank] : pinned_[rank];
  }
  std::vector<std::byte> contents(int rank, way how) {
    if (how == way::direct) return real_gpu::get().read(in_gpu_[rank], MEMORY);
    const auto* const at = reinterpret_cast<const std::byte*>(pinned_[rank]);
    return {at, at + MEMORY};
  }
  void fill(int rank, way how, const std::vector<std::byte>& with) {
    if (how == way::direct) return real_gpu::get().write(in_gpu_[rank], with);
    std::memcpy(pinned_[rank], with.data(), with.size());
  }
  std::uint64_t word(int rank, std::uint64_t offset, way how) {
    std::uint64_t out;
    std::memcpy(&out, contents(rank, how).data() + offset, sizeof(out));
    return out;
  }

  template <class Task>
  void start(const char* name, unsigned blocks, unsigned threads, Task task) {
    using launch_fn = abi::result (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned,
                                      unsigned, unsigned, abi::stream, void**, void**);
    void* all[] = {&task};
    ASSERT_EQ(gpu_driver_call<launch_fn>("cuLaunchKernel")(kernel(name), blocks, 1, 1, threads, 1,
                                                           1, 0, nullptr, all, nullptr),
              abi::result::success);
  }
  // Drives the cards until the kernels have ended.
  void drive() {
    const abi::functions& call = real_gpu::get().d.call();
    while (call.stream_query(nullptr) == abi::result::not_ready)
      for (int i = 0; i < 100; ++i) ends_->progress();
    real_gpu::get().synchronize();
  }
  // All answers are `wanted`.
  void run(const char* scope, unsigned blocks, unsigned threads, call_task task,
           status wanted = status::ok) {
    const unsigned all = blocks * threads;
    task.answers = memory_->pinned_array<status>(all);
    std::fill_n(task.answers, all, status::no_gpu);
    start((std::string("lci_test_calls_") + scope).c_str(), blocks, threads, task);
    drive();
    for (unsigned i = 0; i < all; ++i)
      ASSERT_EQ(task.answers[i], wanted)
          << scope << " thread " << i << ": " << text_of(task.answers[i]);
  }
  static constexpr const char* SCOPES[] = {"thread", "warp", "block"};
  // How many callers 2 blocks of 128 threads are.
  static std::uint64_t callers(const std::string& scope) {
    return scope == "thread" ? 256 : scope == "warp" ? 8 : 2;
  }

  void* kernel(const char* name) {
    using find_fn = abi::result (*)(void**, void*, const char*);
    void* found = nullptr;
    const abi::result answer =
        gpu_driver_call<find_fn>("cuModuleGetFunction")(&found, module_, name);
    return answer == abi::result::success ? found : nullptr;
  }

  std::optional<real_memory> memory_;
  std::optional<gpu_endpoints> ends_;
  void* module_ = nullptr;
  unsigned char* in_gpu_[2] = {};
  unsigned char* pinned_[2] = {};
  gpu::key_t pinned_key_[2];
};

}  // namespace lci::test
