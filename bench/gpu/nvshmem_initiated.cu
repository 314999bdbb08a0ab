// NVSHMEM's device calls between two processes, each on a GPU of its own: the rival of
// bench_gpu_initiated. Built where a Python environment or LCI_NVSHMEM_ROOT has NVSHMEM. Prints a
// JSON line for each measurement; exit status 77, with the reason, where it cannot run. Threads:
// single; it starts the two processes itself.
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int ROUNDS = 2000, BLOCKS_OF_ROUNDS = 7, THREADS = 512;
constexpr std::size_t BULK = std::size_t{64} << 20;

bool is_measuring = false;

// Before anything is measured the reason is that it cannot run here; later it is a failure.
void must(cudaError_t e, const char* what) {
  if (e == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
  std::exit(is_measuring ? 1 : 77);
}

__device__ std::uint64_t now_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// A ping-pong of signals, with or without 8 bytes before each. `first` counts on from call to call.
__global__ void ping_pong(std::uint64_t* data, std::uint64_t* signal, int me, bool with_data,
                          std::uint64_t first, int rounds, std::uint64_t* took_ns) {
  const std::uint64_t begin = now_ns();
  for (int i = 0; i < rounds; ++i) {
    const std::uint64_t turn = first + static_cast<std::uint64_t>(i) + 1;
    if (me == 1) nvshmem_signal_wait_until(signal, NVSHMEM_CMP_GE, turn);
    if (with_data)
      nvshmem_putmem_signal(data + 1, data, 8, signal, turn, NVSHMEM_SIGNAL_SET, 1 - me);
    else
      nvshmemx_signal_op(signal, turn, NVSHMEM_SIGNAL_SET, 1 - me);
    if (me == 0) nvshmem_signal_wait_until(signal, NVSHMEM_CMP_GE, turn);
  }
  *took_ns = now_ns() - begin;
}

// The same by a block, with `size` bytes.
__global__ void ping_pong_of_block(char* to, const char* from, std::size_t size,
                                   std::uint64_t* signal, int me, std::uint64_t first, int rounds,
                                   std::uint64_t* took_ns) {
  const std::uint64_t begin = now_ns();
  for (int i = 0; i < rounds; ++i) {
    const std::uint64_t turn = first + static_cast<std::uint64_t>(i) + 1;
    for (int step = 0; step < 2; ++step) {
      if (step == me)
        nvshmemx_putmem_signal_block(to, from, size, signal, turn, NVSHMEM_SIGNAL_SET, 1 - me);
      else if (threadIdx.x == 0)
        nvshmem_signal_wait_until(signal, NVSHMEM_CMP_GE, turn);
      __syncthreads();
    }
  }
  if (threadIdx.x == 0) *took_ns = now_ns() - begin;
}

// Each block puts its share, `rounds` times.
__global__ void bulk(char* to, const char* from, std::size_t size, int rounds) {
  const std::size_t share = size / gridDim.x;
  for (int i = 0; i < rounds; ++i)
    nvshmemx_putmem_nbi_block(to + share * blockIdx.x, from + share * blockIdx.x, share, 1);
  __syncthreads();
  if (threadIdx.x == 0) nvshmem_quiet();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}
void say(const char* what, const char* unit, double value) {
  std::printf("{\"who\": \"nvshmem\", \"what\": \"%s\", \"unit\": \"%s\", \"value\": %.4f}\n", what,
              unit, value);
  std::fflush(stdout);
}

// `start` starts the kernel, which counts on from what it is given.
template <class Start>
double one_way_us(std::uint64_t& turns, const std::uint64_t* took, Start start) {
  std::vector<double> times;
  for (int b = 0; b <= BLOCKS_OF_ROUNDS; ++b) {
    nvshmem_barrier_all();
    start(turns);
    must(cudaDeviceSynchronize(), "ping-pong");
    turns += ROUNDS;
    if (b != 0) times.push_back(static_cast<double>(*took) / 1000.0 / ROUNDS / 2);
  }
  return median(times);
}

// Of one call of the kernel, from events.
double bulk_us(char* to, char* from, std::size_t size, int blocks, int rounds) {
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin), "cudaEventCreate");
  must(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<double> times;
  for (int b = 0; b <= BLOCKS_OF_ROUNDS; ++b) {
    must(cudaEventRecord(begin), "cudaEventRecord");
    bulk<<<blocks, THREADS>>>(to, from, size, rounds);
    must(cudaEventRecord(end), "cudaEventRecord");
    must(cudaEventSynchronize(end), "bulk");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    if (b != 0) times.push_back(static_cast<double>(ms) * 1000.0 / rounds);
  }
  return median(times);
}

int measure(int me) {
  is_measuring = true;
  auto* const data = static_cast<std::uint64_t*>(nvshmem_malloc(64));
  auto* const signal = static_cast<std::uint64_t*>(nvshmem_calloc(1, 64));
  auto* const from = static_cast<char*>(nvshmem_malloc(BULK));
  auto* const to = static_cast<char*>(nvshmem_malloc(BULK));
  std::uint64_t* took = nullptr;
  must(cudaMallocHost(reinterpret_cast<void**>(&took), sizeof(*took)), "cudaMallocHost");
  std::uint64_t turns = 0;
  const auto by_thread = [&](bool with_data) {
    return one_way_us(turns, took, [&](std::uint64_t first) {
      ping_pong<<<1, 1>>>(data, signal, me, with_data, first, ROUNDS, took);
    });
  };
  const double with_data = by_thread(true);
  const double alone = by_thread(false);
  const double of_block = one_way_us(turns, took, [&](std::uint64_t first) {
    ping_pong_of_block<<<1, THREADS>>>(to, from, 65536, signal, me, first, ROUNDS, took);
  });
  if (me == 0) {
    say("peer: 8 B put + signal, one way", "us", with_data);
    say("peer: signal, one way", "us", alone);
    say("peer: 64 KiB put + signal by a block, one way", "us", of_block);
    say("peer: puts of 64 KiB by a block, each", "us", bulk_us(to, from, 65536, 1, 200));
    for (int blocks : {1, 2, 4, 8, 16, 32}) {
      char what[64];
      std::snprintf(what, sizeof(what), "peer: bandwidth, %d blocks", blocks);
      say(what, "GB/s", static_cast<double>(BULK) / 1000.0 / bulk_us(to, from, BULK, blocks, 1));
    }
  }
  nvshmem_barrier_all();
  return 0;
}

int run(int me, int pipe_in, int pipe_out) {
  int gpus = 0;
  must(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
  if (gpus < 2) return std::fprintf(stderr, "NVSHMEM is measured on two GPUs only\n"), 77;
  must(cudaSetDevice(me), "cudaSetDevice");
  if (me != 0) close(pipe_out);  // so that the end of rank 0 ends the read
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  if (me == 0) {
    if (nvshmemx_get_uniqueid(&id) != 0) return std::fprintf(stderr, "NVSHMEM makes no id\n"), 77;
    if (write(pipe_out, &id, sizeof(id)) != sizeof(id)) return 1;
  } else if (read(pipe_in, &id, sizeof(id)) != sizeof(id)) {
    return 77;
  }
  nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
  nvshmemx_set_attr_uniqueid_args(me, 2, &id, &attr);
  if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr) != 0)
    return std::fprintf(stderr, "NVSHMEM does not start\n"), 77;
  const int status = measure(me);
  nvshmem_finalize();
  return status;
}

}  // namespace

int main() {
  int ends[2];
  if (pipe(ends) != 0) return 1;
  pid_t children[2];
  for (int me : {0, 1}) {
    children[me] = fork();
    if (children[me] == 0) std::exit(run(me, ends[0], ends[1]));
    if (children[me] < 0) {
      std::perror("fork");
      if (me == 1) kill(children[0], SIGKILL);
      return 1;
    }
  }
  close(ends[1]);
  int status = 0;
  const pid_t first = wait(&status), other = first == children[0] ? children[1] : children[0];
  // The other one would wait for it in a barrier or a kernel.
  const int of_first = status;
  if (of_first != 0) kill(other, SIGKILL);
  waitpid(other, &status, 0);
  const int failed = of_first != 0 ? of_first : status;
  return WIFEXITED(failed) ? WEXITSTATUS(failed) : 1;
}
