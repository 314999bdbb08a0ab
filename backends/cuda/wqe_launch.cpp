#include "backends/cuda/wqe_launch.hpp"

#include <sched.h>

#include <string>

#include "backends/cuda/errors.hpp"
#include "lci/errors.hpp"
#include "lci/version.hpp"

#ifdef LCI_USE_CUDA
extern const unsigned char lci_wqe_image[];
extern const unsigned long lci_wqe_image_size;
#endif

namespace lci::cuda {

std::span<const unsigned char> wqe_image() noexcept {
#ifdef LCI_USE_CUDA
  return {lci_wqe_image, lci_wqe_image_size};
#else
  return {};
#endif
}

wqe_launch::wqe_launch(gpu& g, std::span<const unsigned char> image, const char* kernel)
    : gpu_(g), scope_(g.call(), g.context()) {
  if (image.empty())
    throw backend_error(
        "cuda: this library has no device code: configure it with -DLCI_USE_CUDA=ON");
  if (g.call().module_load_data == nullptr || g.call().launch_kernel == nullptr)
    throw backend_error("cuda: this driver launches no kernels");
  check(g.call(), scope_.entered(), "cuCtxPushCurrent", "GPU " + std::to_string(g.facts().ordinal));
  try {
    open(image, kernel);
  } catch (...) {
    close();
    throw;
  }
}

void wqe_launch::open(std::span<const unsigned char> image, const char* kernel) {
  const abi::functions& call = gpu_.call();
  const std::string on = "GPU " + std::to_string(gpu_.facts().ordinal);
  check(call, call.module_load_data(&module_, image.data()), "cuModuleLoadData", on);
  check(call, call.module_get_function(&kernel_, module_, kernel), "cuModuleGetFunction", kernel);
  check(call, call.stream_create(&stream_, abi::STREAM_NON_BLOCKING), "cuStreamCreate", on);
  void* memory = nullptr;
  check(call,
        call.mem_host_alloc(&memory, sizeof(*answer_),
                            abi::HOST_ALLOC_PORTABLE | abi::HOST_ALLOC_DEVICE_MAP),
        "cuMemHostAlloc", on);
  answer_ = static_cast<std::int64_t*>(memory);
  abi::device_ptr at = 0;
  check(call, call.mem_host_get_device_pointer(&at, memory, 0), "cuMemHostGetDevicePointer", on);
  answer_at_gpu_ = reinterpret_cast<std::int64_t*>(static_cast<std::uintptr_t>(at));
}

void wqe_launch::close() noexcept {
  const abi::functions& call = gpu_.call();
  if (answer_ != nullptr) log_teardown(call, call.mem_free_host(answer_), "cuMemFreeHost");
  if (stream_ != nullptr) log_teardown(call, call.stream_destroy(stream_), "cuStreamDestroy");
  if (module_ != nullptr) log_teardown(call, call.module_unload(module_), "cuModuleUnload");
}

wqe_launch::~wqe_launch() { close(); }

std::int64_t wqe_launch::run(void* parameters) {
  const abi::functions& call = gpu_.call();
  const std::string on = "GPU " + std::to_string(gpu_.facts().ordinal);
  void* all[] = {parameters};
  check(call, call.launch_kernel(kernel_, 1, 1, 1, 1, 1, 1, 0, stream_, all, nullptr),
        "cuLaunchKernel", on);
  // The kernel waits for nothing, so it ends, or the driver says what went wrong.
  abi::result answer = call.stream_query(stream_);
  for (; answer == abi::result::not_ready; answer = call.stream_query(stream_)) sched_yield();
  check(call, answer, "cuStreamQuery", on);
  return *answer_;
}

}  // namespace lci::cuda
