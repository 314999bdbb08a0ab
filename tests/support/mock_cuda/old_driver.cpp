// A driver from before cuGetProcAddress (CUDA 11.2): good for one question about pointers only.
#include "backends/cuda/abi.hpp"

namespace abi = lci::cuda::abi;

#define LCI_MOCK_EXPORT extern "C" __attribute__((visibility("default")))

LCI_MOCK_EXPORT abi::result cuDriverGetVersion(int* version) {
  *version = 11020;
  return abi::result::success;
}

// Every address between 1 MiB and 2 MiB is on GPU 0.
LCI_MOCK_EXPORT abi::result cuPointerGetAttributes(unsigned count,
                                                   abi::pointer_attribute* attributes, void** data,
                                                   abi::device_ptr pointer) {
  constexpr abi::device_ptr START = abi::device_ptr{1} << 20;
  if (pointer < START || pointer >= 2 * START) return abi::result::success;
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case abi::pointer_attribute::memory_type:
        *static_cast<unsigned*>(data[i]) = static_cast<unsigned>(abi::memory_type::gpu);
        break;
      case abi::pointer_attribute::buffer_id:
        *static_cast<unsigned long long*>(data[i]) = 7;
        break;
      case abi::pointer_attribute::range_start_addr:
        *static_cast<abi::device_ptr*>(data[i]) = START;
        break;
      case abi::pointer_attribute::range_size:
        *static_cast<std::size_t*>(data[i]) = START;
        break;
      case abi::pointer_attribute::is_legacy_ipc_capable:
        *static_cast<unsigned*>(data[i]) = 1;
        break;
      default:
        break;  // unknown ones stay as they are
    }
  }
  return abi::result::success;
}
