// A rod of cells in GPU memory, cut into pieces: lcrun -n 4 gpu_halo [width of the halo] [steps]
//
// Before each step a process needs the edges of the pieces to its left and right. The neighbours
// write them from their GPUs into this process's memory, and a counter here counts the arrivals:
// put with signal, with keys that all processes have exchanged at the start.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "gpu_memory.hpp"
#include "lci.hpp"

namespace {

using cells_t = std::vector<double>;
enum side_t { LEFT, RIGHT };

// A piece of the rod, at two moments: `at[step % 2]` is now. Each consists of a halo, the left
// edge, the right edge and a halo, of `width` cells each; the cells between the edges are never
// sent.
struct piece_t {
  piece_t(gpu_t& g, size_t w) : gpu(g), width(w) {
    for (int i : {0, 1}) {
      at[i] = static_cast<char*>(gpu.allocate(4 * bytes()));
      regions[i] = lci::register_memory(at[i], 4 * bytes());
    }
  }
  ~piece_t() {
    for (int i : {0, 1}) {
      lci::deregister_memory(&regions[i]);
      gpu.free(at[i]);
    }
  }
  size_t bytes() const { return width * sizeof(double); }
  size_t halo(side_t side) const { return side == LEFT ? 0 : 3 * bytes(); }
  size_t edge(side_t side) const { return side == LEFT ? bytes() : 2 * bytes(); }
  char* now(int step) const { return at[step % 2]; }

  gpu_t& gpu;
  size_t width;
  char* at[2];
  lci::mr_t regions[2];
};

// Stands for a computation: the values of the edge of process `rank` in a step.
cells_t cells(int rank, side_t side, int step, size_t width) {
  cells_t values(width);
  for (size_t i = 0; i < width; ++i) values[i] = rank * 1e9 + side * 1e8 + step * 1e4 + double(i);
  return values;
}

int exchange(piece_t& piece, int steps) {
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  const int neighbour[] = {(me + n - 1) % n, (me + 1) % n};
  const lci::rmr_t mine[] = {lci::get_rmr(piece.regions[0]), lci::get_rmr(piece.regions[1])};
  std::vector<lci::rmr_t> keys(2 * size_t(n));
  lci::comp_t from[] = {lci::alloc_counter(), lci::alloc_counter()};
  const lci::rcomp_t signals[] = {lci::register_rcomp(from[LEFT]),
                                  lci::register_rcomp(from[RIGHT])};
  // No rank gets past this call before all have reached it.
  lci::allgather(mine, keys.data(), sizeof(mine));
  int wrong = 0;
  for (int step = 0; step < steps; ++step) {
    for (side_t side : {LEFT, RIGHT}) {
      const side_t there = side == LEFT ? RIGHT : LEFT;  // this left edge is its right halo
      char* const edge = piece.now(step) + piece.edge(side);
      piece.gpu.write(edge, cells(me, side, step, piece.width));
      lci::post_put_x put(neighbour[side], edge, piece.bytes(), lci::COMP_NULL, piece.halo(there),
                          keys[2 * size_t(neighbour[side]) + size_t(step % 2)]);
      put.mr(piece.regions[step % 2]).remote_comp(signals[there])();
    }
    // A neighbour may be one step ahead, but then it writes to the other moment.
    for (side_t side : {LEFT, RIGHT}) {
      while (lci::counter_get(from[side]) <= step) lci::progress();
      const cells_t got = piece.gpu.read<double>(piece.now(step) + piece.halo(side), piece.width);
      wrong += got != cells(neighbour[side], side == LEFT ? RIGHT : LEFT, step, piece.width);
    }
  }
  lci::barrier();
  for (const lci::rcomp_t signal : signals) lci::deregister_rcomp(signal);
  for (lci::comp_t& counter : from) lci::free_comp(&counter);
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t width = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1024;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 100;
  if (width == 0 || steps <= 0) return std::puts("usage: lcrun -n 4 gpu_halo [width] [steps]"), 2;
  lci::g_runtime_init();
  gpu_t gpu(lci::get_rank_me());
  int wrong = 0;
  if (gpu.problem().empty()) {
    piece_t piece(gpu, width);
    const auto start = std::chrono::steady_clock::now();
    wrong = exchange(piece, steps);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    std::printf("rank %d on GPU %d: %d steps, %zu cells a side: %d halos wrong, %.3f s\n",
                lci::get_rank_me(), gpu.number(), steps, width, wrong, time.count());
  } else {
    std::printf("no GPU: %s\n", gpu.problem().c_str());
  }
  lci::g_runtime_fina();
  return wrong == 0 ? 0 : 1;
}
