#include "tools/perf/gpu_buffer.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "lci.hpp"

namespace lci_perf {

namespace {

constexpr std::size_t LEAST = 4096;

// One function of the driver; handles, addresses and sizes are 64 bits wide, 0 means success.
template <class... Args>
void must(const char* name, Args... args) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  auto* const function =
      driver != nullptr ? reinterpret_cast<int (*)(Args...)>(dlsym(driver, name)) : nullptr;
  if (function == nullptr) throw std::runtime_error(std::string(name) + ": no such function here");
  if (const int error = function(args...); error != 0)
    throw std::runtime_error(std::string(name) + ": CUDA error " + std::to_string(error));
}

void* take_from_gpu(std::size_t bytes, int number) {
  int count = 0, device = 0;
  void *context = nullptr, *memory = nullptr;
  must("cuInit", 0u);
  must("cuDeviceGetCount", &count);
  if (count == 0) throw std::runtime_error("the driver finds no GPU");
  must("cuDeviceGet", &device, number % count);
  must("cuDevicePrimaryCtxRetain", &context, device);
  must("cuCtxSetCurrent", context);
  must("cuMemAlloc_v2", &memory, bytes);
  return memory;
}

}  // namespace

buffer::buffer(bool is_gpu, std::size_t bytes, int number)
    : is_gpu_(is_gpu), size_(std::max(bytes, LEAST)) {
  if (is_gpu) {
    data_ = static_cast<char*>(take_from_gpu(size_, number));
    return;
  }
  // As malloc() gives it, and written, so that it is there before anything is timed.
  data_ = static_cast<char*>(std::malloc(size_));
  if (data_ == nullptr) throw std::runtime_error("no memory for a buffer");
  std::memset(data_, 'p', size_);
}

buffer::~buffer() {
  if (!is_gpu_) {
    std::free(data_);
    return;
  }
  try {
    must("cuMemFree_v2", data_);
  } catch (const std::exception&) {
    return;  // the process ends, and its memory with it
  }
}

std::string why_no_gpu() {
  std::string why = "this build of lci has no accelerator";
  for (const lci::info_accelerator_t& one : lci::describe_machine().accelerators) {
    if (one.why_not.empty() && one.name == "cuda") return "";
    if (one.name == "cuda") why = one.why_not;
  }
  return why;
}

}  // namespace lci_perf
