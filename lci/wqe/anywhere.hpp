// What lets one source be compiled for processors and for GPUs. Everything in this room but what is
// for host programs only is marked LCI_ANYWHERE, so a kernel and a host thread run the same lines.
// Callers: all headers of this room, and kernels of users. Threads: nothing here has state.
// Always true: without nvcc the macro is empty and no CUDA header is needed; the headers of this
// room include nothing of lci but each other, and are C++17, which is what nvcc compiles.
#pragma once

#ifdef __CUDACC__
#define LCI_ANYWHERE __host__ __device__
#else
#define LCI_ANYWHERE
#endif

namespace lci::wqe {

// Whether the code runs on a GPU. A GPU may read what a host may not, and the other way round.
LCI_ANYWHERE constexpr bool runs_on_gpu() noexcept {
#ifdef __CUDA_ARCH__
  return true;
#else
  return false;
#endif
}

}  // namespace lci::wqe
