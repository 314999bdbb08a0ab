#include "tests/accelerator/gpu_kernels.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "tests/accelerator/real_gpu.hpp"

#ifdef LCI_HAVE_TEST_KERNELS
extern const unsigned char lci_test_kernels[];
#endif

namespace lci::cuda {
namespace {

constexpr unsigned THREADS = 256;

#ifdef LCI_HAVE_TEST_KERNELS
const void* image() { return lci_test_kernels; }
#else
const void* image() { return nullptr; }
#endif

int left_out_now = 0;
std::string why_none;  // once asked for; empty: there are kernels

abi::device_ptr address(const void* at) { return as_device(at); }

}  // namespace

struct gpu_kernels::calls {
  template <class Function>
  static Function find(const char* name) {
    void* const found = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name);
    EXPECT_NE(found, nullptr) << name;
    return reinterpret_cast<Function>(found);
  }
  abi::result (*load)(void**,
                      const void*) = find<abi::result (*)(void**, const void*)>("cuModuleLoadData");
  abi::result (*function)(void**, void*, const char*) =
      find<abi::result (*)(void**, void*, const char*)>("cuModuleGetFunction");
  using launch_fn = abi::result (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned,
                                    unsigned, unsigned, abi::stream, void**, void**);
  launch_fn launch = find<launch_fn>("cuLaunchKernel");
  abi::result (*wait)(abi::stream) = find<abi::result (*)(abi::stream)>("cuStreamSynchronize");
  abi::result (*write)(abi::device_ptr, const void*, std::size_t) =
      find<abi::result (*)(abi::device_ptr, const void*, std::size_t)>("cuMemcpyHtoD_v2");
  abi::result (*read)(void*, abi::device_ptr, std::size_t) =
      find<abi::result (*)(void*, abi::device_ptr, std::size_t)>("cuMemcpyDtoH_v2");
  static void must(abi::result answer) { ASSERT_EQ(answer, abi::result::success); }
};

gpu_kernels::gpu_kernels() : calls_(std::make_unique<calls>()) {}

// That the kernels do not fit this GPU is said; anything else is a failure.
abi::result gpu_kernels::load() {
  real_gpu& g = real_gpu::get();
  if (const abi::result answer = calls_->load(&module_, image()); answer != abi::result::success)
    return answer;
  calls::must(calls_->function(&fill_, module_, "lci_test_fill"));
  calls::must(calls_->function(&compare_, module_, "lci_test_compare"));
  calls::must(calls_->function(&compare_when_told_, module_, "lci_test_compare_when_told"));
  const abi::functions& call = g.d.call();
  calls::must(call.stream_create(&stream_, abi::STREAM_NON_BLOCKING));
  void* memory = g.allocate(real_gpu::kind::device, sizeof(test::verdict));
  verdict_ = static_cast<test::verdict*>(memory);
  word_ = static_cast<std::uint64_t*>(g.allocate(real_gpu::kind::pinned, sizeof(*word_)));
  *word_ = 0;
  // Each once: with lazy loading the first launch waits for everything on the GPU.
  test::contents nothing{reinterpret_cast<unsigned char*>(verdict_), 0, 0, 0, 0};
  fill(nothing);
  compare(nothing);
  begin(nothing, 0);
  tell();
  end();
  return abi::result::success;
}

gpu_kernels* gpu_kernels::get() {
  if (left_out_now != 0) return nullptr;
  // Never destroyed: what the driver keeps for a thread is gone when objects of the program go.
  static gpu_kernels* const one = []() -> gpu_kernels* {
    why_none = "there was no nvcc when this was built";
    if (image() == nullptr) return nullptr;
    std::unique_ptr<gpu_kernels> made(new gpu_kernels);
    const abi::result answer = made->load();
    why_none = answer == abi::result::success
                   ? ""
                   : "cuModuleLoadData: error " + std::to_string(static_cast<int>(answer));
    EXPECT_TRUE(answer == abi::result::success || is_other_gpu(answer)) << why_none;
    return answer == abi::result::success ? made.release() : nullptr;
  }();
  return one;
}

std::string gpu_kernels::announcement() {
  if (get() != nullptr) return "contents of GPU memory are made and compared by kernels";
  return "contents of GPU memory are compared by copying them back: " + why_none;
}

gpu_kernels::left_out::left_out() { ++left_out_now; }
gpu_kernels::left_out::~left_out() { --left_out_now; }

void gpu_kernels::launch(void* kernel, unsigned blocks, test::task& parameters) {
  void* all[] = {&parameters};
  calls::must(calls_->launch(kernel, blocks, 1, 1, THREADS, 1, 1, 0, stream_, all, nullptr));
}

void gpu_kernels::forget_verdict() {
  const test::verdict none{};
  calls::must(calls_->write(address(verdict_), &none, sizeof(none)));
}

namespace {
unsigned blocks_for(std::uint64_t bytes) {
  return static_cast<unsigned>(std::clamp<std::uint64_t>(bytes / THREADS, 1, 1024));
}
}  // namespace

void gpu_kernels::fill(const test::contents& what) {
  test::task t{what, verdict_, nullptr, 0, 0};
  launch(fill_, blocks_for(what.count), t);
  calls::must(calls_->wait(stream_));
}

test::verdict gpu_kernels::compare(const test::contents& what) {
  forget_verdict();
  test::task t{what, verdict_, nullptr, 0, 0};
  launch(compare_, blocks_for(what.count), t);
  return end();
}

void gpu_kernels::begin(const test::contents& what, std::uint64_t patience) {
  forget_verdict();
  test::task t{what, verdict_, word_, told_ + 1, patience};
  launch(compare_when_told_, 1, t);
}

void gpu_kernels::tell() { std::atomic_ref(*word_).store(++told_, std::memory_order_release); }

test::verdict gpu_kernels::end() {
  calls::must(calls_->wait(stream_));
  test::verdict said;
  calls::must(calls_->read(&said, address(verdict_), sizeof(said)));
  return said;
}

}  // namespace lci::cuda
