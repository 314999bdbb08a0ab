// Buffers in GPU memory travel round a ring of processes: lcrun -n 2 gpu_ring [bytes] [laps]
//
// Every process passes on what it receives. This needs no preparation: MR_DEVICE says that a buffer
// is in GPU memory, and the library finds the path from one GPU to the other.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "gpu_memory.hpp"
#include "lci.hpp"

namespace {

// The data that process `rank` puts into the ring.
std::vector<uint8_t> contents(int rank, size_t size) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = uint8_t(i * 7 + i / 256 + size_t(rank) * 101 + 1);
  return bytes;
}

// One step: `mine` goes to the right, and what comes from the left takes its place.
void step(void*& mine, void*& other, size_t size, lci::comp_t arrived) {
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  lci::post_recv_x recv((me + n - 1) % n, other, size, 0, arrived);
  recv.mr(lci::MR_DEVICE).allow_done(false)();
  lci::post_send_x((me + 1) % n, mine, size, 0, lci::COMP_NULL).mr(lci::MR_DEVICE)();
  lci::sync_wait(arrived, nullptr);
  std::swap(mine, other);
}

bool pass_round(gpu_t& gpu, size_t size, int laps) {
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  void* mine = gpu.allocate(size);
  void* other = gpu.allocate(size);
  lci::comp_t arrived = lci::alloc_sync();
  gpu.write(mine, contents(me, size));
  // The first lap is checked in each step, the others are timed.
  bool right = true;
  for (int hop = 1; hop <= n; ++hop) {
    gpu.write(other, std::vector<uint8_t>(size));
    step(mine, other, size, arrived);
    right = right && gpu.read<uint8_t>(mine, size) == contents((me + n - hop % n) % n, size);
  }
  lci::barrier();
  const auto start = std::chrono::steady_clock::now();
  for (int hop = 0; hop < n * laps; ++hop) step(mine, other, size, arrived);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  right = right && gpu.read<uint8_t>(mine, size) == contents(me, size);

  const double seconds = time.count() / (n * laps);
  std::printf("rank %d on GPU %d: %zu bytes, %d laps: %s, %.2f us a step, %.2f GB/s\n", me,
              gpu.number(), size, laps, right ? "correct" : "WRONG", seconds * 1e6,
              double(size) / seconds / 1e9);
  lci::barrier();
  lci::free_comp(&arrived);
  gpu.free(mine);
  gpu.free(other);
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t size = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 65536;
  const int laps = argc > 2 ? std::atoi(argv[2]) : 100;
  if (size == 0 || laps <= 0) return std::puts("usage: lcrun -n 2 gpu_ring [bytes] [laps]"), 2;
  lci::g_runtime_init();
  gpu_t gpu(lci::get_rank_me());
  bool right = true;
  if (gpu.problem().empty()) {
    right = pass_round(gpu, size, laps);
  } else {
    std::printf("no GPU: %s\n", gpu.problem().c_str());
  }
  lci::g_runtime_fina();
  return right ? 0 : 1;
}
