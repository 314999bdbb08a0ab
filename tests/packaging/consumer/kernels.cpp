// A client of what kernels call, compiled for processors: the header needs C++17, nothing of CUDA,
// and no library.
#include <cstdio>

#include "lci/device.cuh"

int main() {
  const lci::gpu::endpoint_t none;
  const lci::gpu::status said = lci::gpu::put_value(none, 0, lci::gpu::place_t(), 1);
  std::printf("%ld: %s\n", static_cast<long>(__cplusplus), lci::gpu::text_of(said));
  return said == lci::gpu::status::bad_endpoint ? 0 : 1;
}
