// Contents of GPU memory, made and looked at by kernels: what a program's own kernels would see.
// The kernels come with the program where nvcc was found when it was built; elsewhere the callers
// copy contents through the host. Callers: the checks of the accelerator suites. Threads: single.
// Always true: works in a stream of its own, so work that is held up in other streams is not waited
// for; loaded and started once before the first use, since that waits for the whole GPU.
#pragma once

#include <memory>
#include <string>

#include "backends/cuda/abi.hpp"
#include "tests/support/device_code/contents.hpp"

namespace lci::cuda {

// What the kernels were not compiled for: CUDA_ERROR_NO_BINARY_FOR_GPU, _UNSUPPORTED_PTX_VERSION.
constexpr bool is_other_gpu(abi::result code) {
  return code == static_cast<abi::result>(209) || code == static_cast<abi::result>(222);
}

class gpu_kernels {
 public:
  // Null where there are none. On the GPU of real_gpu::get().
  static gpu_kernels* get();
  // One sentence: how contents are compared.
  static std::string announcement();
  // While one lives get() is null and loads nothing.
  class left_out {
   public:
    left_out();
    ~left_out();
    left_out(const left_out&) = delete;
    left_out& operator=(const left_out&) = delete;
  };

  gpu_kernels(const gpu_kernels&) = delete;
  gpu_kernels& operator=(const gpu_kernels&) = delete;

  void fill(const test::contents& what);
  test::verdict compare(const test::contents& what);

  // A kernel that runs from now on, reads the memory, and compares it after tell(). It gives up
  // after `patience` nanoseconds. end() waits for it.
  void begin(const test::contents& what, std::uint64_t patience);
  void tell();
  test::verdict end();

 private:
  struct calls;
  gpu_kernels();
  abi::result load();
  void launch(void* kernel, unsigned blocks, test::task& parameters);
  void forget_verdict();

  std::unique_ptr<calls> calls_;
  void* module_ = nullptr;
  void* fill_ = nullptr;
  void* compare_ = nullptr;
  void* compare_when_told_ = nullptr;
  abi::stream stream_ = nullptr;
  test::verdict* verdict_ = nullptr;  // memory of the GPU
  std::uint64_t* word_ = nullptr;     // pinned
  std::uint64_t told_ = 0;            // what it was set to last
};

}  // namespace lci::cuda
