// Kernels with the errors that compute-sanitizer has to find. Caller:
// tests/accelerator/planted_errors_main. Each is one block of two warps, with a word of `words` for
// each thread.

extern "C" __global__ void lci_test_no_error(unsigned* words) { words[threadIdx.x] = threadIdx.x; }

// memcheck: the last thread stores one word behind the allocation.
extern "C" __global__ void lci_test_out_of_bounds(unsigned* words) {
  words[threadIdx.x + 1] = threadIdx.x;
}

// synccheck: half of the second warp does not come to the barrier.
extern "C" __global__ void lci_test_diverged_barrier(unsigned* words) {
  if (threadIdx.x < 48) {
    words[threadIdx.x] = threadIdx.x;
    __syncthreads();
  }
  words[threadIdx.x] += 1;
}

// racecheck: each warp reads what the other one stores, with no barrier between.
extern "C" __global__ void lci_test_shared_race(unsigned* words) {
  __shared__ volatile unsigned shared[64];
  shared[threadIdx.x] = threadIdx.x;
  words[threadIdx.x] = shared[63 - threadIdx.x];
}
