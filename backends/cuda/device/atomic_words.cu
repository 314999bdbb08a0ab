// Atomic operations on words of GPU memory that other ranks ask for: one block, a thread for each
// request. Launched by backends/cuda/atomic_jobs. Always true: a processor that sees `done` sees
// the answers, and any later reader of a word sees what was made of it.
#include <cuda_runtime.h>

#include "backends/cuda/atomic_command.hpp"
#include "lci/wqe/apply_change.hpp"

extern "C" __global__ void __launch_bounds__(lci::cuda::atomic_layout::MOST)
    lci_atomic_words(const lci::cuda::atomic_layout::arguments with) {
  const unsigned me = threadIdx.x;
  if (me < with.count) {
    lci::cuda::atomic_layout::request& mine = with.shared->requests[me];
    mine.old = lci::wqe::apply(mine.change, reinterpret_cast<void*>(mine.at));
    __threadfence_system();
  }
  __syncthreads();
  if (me != 0) return;
  // edge cuda.atomics, other side in atomic_jobs.cpp: the answers of all threads, which the barrier
  // orders before.
  __threadfence_system();
  lci::wqe::word_at<unsigned>(&with.shared->done).store(with.number, std::memory_order_release);
}
