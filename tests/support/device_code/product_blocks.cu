// Calls of lci/gpu by blocks of a GPU over endpoints of the library. Callers:
// tests/accelerator/product. Threads: each block is a caller. A file for each scope, since they
// take long to compile.
#include "tests/support/device_code/product_messages.hpp"

namespace {
__device__ std::uint64_t number_of_thread() {
  return std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
}  // namespace

extern "C" __global__ void lci_test_product_block(lci::test::product::task t) {
  t.faults[number_of_thread()] = lci::test::product::run<lci::gpu::block>(t, {blockIdx.x});
}
