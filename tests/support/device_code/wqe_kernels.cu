// The vectors, and random requests, by a GPU. Callers: tests/accelerator/wqe_test. Threads: a job
// or a request each.
#include "tests/support/device_code/wqe_jobs.hpp"

extern "C" __global__ void lci_test_wqe_jobs(lci::test::wqe_task t) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < t.count) lci::test::do_job(t.jobs[i]);
}

extern "C" __global__ void lci_test_wqe_random(lci::test::wqe_task t) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < t.count) lci::test::encode(lci::test::random_input(t.seed, t.first + i), t.outputs + i);
}
