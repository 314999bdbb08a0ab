// The checksum of file_checksum.hpp by all threads of a GPU. Threads: any; waits for its kernel.
#include "file_checksum.hpp"

namespace {

__global__ void add_up(const unsigned char* bytes, size_t size, unsigned long long* sum) {
  const size_t words = (size + 7) / 8, step = static_cast<size_t>(gridDim.x) * blockDim.x;
  unsigned long long mine = 0;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < words; i += step)
    mine += mixed(word_at(bytes, size, i), i);
  atomicAdd(sum, mine);
}

void must(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

}  // namespace

uint64_t checksum_by_kernel(const lci::buffer& memory) {
  unsigned long long *sum = nullptr, out = 0;
  must(cudaSetDevice(memory.device()));
  must(cudaMalloc(&sum, sizeof(*sum)));
  must(cudaMemset(sum, 0, sizeof(*sum)));
  add_up<<<256, 256>>>(static_cast<const unsigned char*>(memory.data()), memory.size(), sum);
  must(cudaMemcpy(&out, sum, sizeof(out), cudaMemcpyDeviceToHost));
  must(cudaFree(sum));
  return out;
}
