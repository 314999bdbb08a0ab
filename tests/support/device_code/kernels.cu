// The kernels of the accelerator suites: fill memory, compare memory, and compare it in a kernel that
// was running before the bytes came. Callers: tests/accelerator/gpu_kernels. Threads: any number.
// Always true: memory that is compared is read past the L1 cache, byte by byte, as it is now.
#include "tests/support/device_code/contents.hpp"

using lci::test::task;

namespace {

__device__ std::uint64_t first_index() {
  return std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ std::uint64_t stride() { return std::uint64_t{gridDim.x} * blockDim.x; }

__device__ void compare(const task& t) {
  const volatile unsigned char* const at = t.what.at;
  unsigned long long wrong = 0, first = ~0ull;
  for (std::uint64_t i = first_index(); i < t.what.count; i += stride()) {
    if (at[i] == expected_byte(t.what, i)) continue;
    ++wrong;
    if (first > i) first = i;
  }
  if (wrong == 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(&t.out->wrong), wrong);
  atomicMin(reinterpret_cast<unsigned long long*>(&t.out->first), first);
}

// What the documentation tells kernels to do that run already.
__device__ std::uint64_t load_acquire(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

__device__ std::uint64_t now() {
  std::uint64_t nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

}  // namespace

extern "C" __global__ void lci_test_fill(task t) {
  for (std::uint64_t i = first_index(); i < t.what.count; i += stride()) {
    t.what.at[i] = expected_byte(t.what, i);
  }
}

extern "C" __global__ void lci_test_compare(task t) { compare(t); }

// One block: the others would wait for a place on a small GPU. Each byte is read once before, so that
// a cache has what was there.
extern "C" __global__ void lci_test_compare_when_told(task t) {
  __shared__ bool told;
  unsigned seen = 0;
  for (std::uint64_t i = first_index(); i < t.what.count; i += stride()) seen += t.what.at[i];
  if (threadIdx.x == 0) {
    const std::uint64_t start = now();
    told = true;
    while (load_acquire(t.word) != t.value) {
      if (now() - start < t.patience) continue;
      told = false;
      break;
    }
    if (!told) t.out->gave_up = 1;
  }
  __syncthreads();
  if (told) compare(t);
  // Never so; without a use the reads above would not be made.
  if (seen == ~0u) t.out->gave_up = 2;
}
