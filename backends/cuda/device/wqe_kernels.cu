// The kernels of the C face as the library carries them, by the names that the driver looks up.
// Launched by backends/cuda/wqe_launch. Threads: one.
#define LCI_WQE_KERNEL extern "C" __global__
#include "lci/wqe/kernels.cuh"
