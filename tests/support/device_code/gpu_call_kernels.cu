// Calls of lci/gpu by a GPU. Callers: tests/accelerator/gpu_calls_test, and the benchmark of calls
// of kernels. Threads: as each says.
#include "tests/support/device_code/gpu_calls.hpp"

namespace {
__device__ std::uint64_t number_of_thread() {
  return std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
}  // namespace

extern "C" __global__ void lci_test_storm(lci::test::storm_task t) {
  const std::uint64_t i = number_of_thread();
  if (i < t.threads) t.answers[i] = lci::test::storm(t, static_cast<std::uint32_t>(i));
}

// Two blocks of one thread, one warp, or more.
extern "C" __global__ void lci_test_turns_thread(lci::test::turns_task t) {
  lci::test::run_turns<lci::gpu::thread>(t);
}
extern "C" __global__ void lci_test_turns_warp(lci::test::turns_task t) {
  lci::test::run_turns<lci::gpu::warp>(t);
}
extern "C" __global__ void __launch_bounds__(1024) lci_test_turns_block(lci::test::turns_task t) {
  lci::test::run_turns<lci::gpu::block>(t);
}

// A caller is a thread, a warp or a block.
extern "C" __global__ void lci_test_calls_thread(lci::test::call_task t) {
  t.answers[number_of_thread()] =
      lci::test::make_calls<lci::gpu::thread>(t, number_of_thread(), true);
}
extern "C" __global__ void lci_test_calls_warp(lci::test::call_task t) {
  const std::uint64_t warps = (blockDim.x + 31) / 32;
  t.answers[number_of_thread()] = lci::test::make_calls<lci::gpu::warp>(
      t, blockIdx.x * warps + threadIdx.x / 32, threadIdx.x % 32 == 0);
}
extern "C" __global__ void lci_test_calls_block(lci::test::call_task t) {
  t.answers[number_of_thread()] =
      lci::test::make_calls<lci::gpu::block>(t, blockIdx.x, threadIdx.x == 0);
}
