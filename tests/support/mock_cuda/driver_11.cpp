// A driver of CUDA 11: it has the first form of cuGetProcAddress only, and sees no GPU.
#include <cstring>

#include "backends/cuda/abi.hpp"

namespace abi = lci::cuda::abi;

#define LCI_MOCK_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

abi::result get_version(int* version) {
  *version = 11040;
  return abi::result::success;
}
abi::result no_gpu(unsigned) { return abi::result::no_device; }
abi::result nothing() { return abi::result::success; }

template <class Function>
void put(void** out, Function function) {
  std::memcpy(out, &function, sizeof(*out));
}

}  // namespace

LCI_MOCK_EXPORT abi::result cuGetProcAddress(const char* symbol, void** out, int version,
                                             unsigned long long) {
  if (version > 11040) return abi::result::invalid_value;
  if (std::strcmp(symbol, "cuDriverGetVersion") == 0) {
    put(out, &get_version);
  } else if (std::strcmp(symbol, "cuInit") == 0) {
    put(out, &no_gpu);
  } else {
    put(out, &nothing);
  }
  return abi::result::success;
}
