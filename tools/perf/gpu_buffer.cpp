#include "tools/perf/gpu_buffer.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "lci.hpp"
#include "tools/perf/gpu_driver.hpp"
#include "tools/perf/page_memory.hpp"

namespace lci_perf {

namespace {

constexpr std::size_t LEAST = 4096;

void* take_from_gpu(std::size_t bytes, int number) {
  int count = 0, device = 0;
  void *context = nullptr, *memory = nullptr;
  gpu_call("cuInit", 0u);
  gpu_call("cuDeviceGetCount", &count);
  if (count == 0) throw std::runtime_error("the driver finds no GPU");
  gpu_call("cuDeviceGet", &device, number % count);
  gpu_call("cuDevicePrimaryCtxRetain", &context, device);
  gpu_call("cuCtxPushCurrent_v2", context);
  gpu_call("cuMemAlloc_v2", &memory, bytes);
  return memory;
}

}  // namespace

buffer::buffer(bool is_gpu, std::size_t bytes, int number)
    : is_gpu_(is_gpu), size_(std::max(bytes, LEAST)) {
  if (is_gpu) {
    data_ = static_cast<char*>(take_from_gpu(size_, number));
    return;
  }
  // Written, so that it is there before anything is timed.
  data_ = at_page(size_);
  if (data_ == nullptr) throw std::runtime_error("no memory for a buffer");
  std::memset(data_, 'p', size_);
}

buffer::~buffer() {
  if (!is_gpu_) {
    std::free(data_);
    return;
  }
  try {
    gpu_call("cuMemFree_v2", data_);
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
