// The vectors, random requests, and a send queue that many threads share, by a GPU. Callers:
// tests/accelerator/wqe_test. Threads: a job, a request or a poster each.
#include "tests/support/device_code/wqe_jobs.hpp"
#include "tests/support/device_code/wqe_posts.hpp"

extern "C" __global__ void lci_test_wqe_jobs(lci::test::wqe_task t) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < t.count) lci::test::do_job(t.jobs[i]);
}

extern "C" __global__ void lci_test_wqe_random(lci::test::wqe_task t) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < t.count) lci::test::encode(lci::test::random_input(t.seed, t.first + i), t.outputs + i);
}

extern "C" __global__ void lci_test_wqe_prepare(lci::test::post_task t) {
  if (blockIdx.x == 0 && threadIdx.x == 0) t.answers[0] = lci::wqe::prepare(t.queue);
}

extern "C" __global__ void lci_test_wqe_post(lci::test::post_task t) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= t.threads) return;
  lci::wqe::status s = lci::test::post_numbered(t.queue, i, t.each);
  if (s == lci::wqe::status::ok) s = lci::wqe::flush(t.queue);
  t.answers[i] = s;
}
