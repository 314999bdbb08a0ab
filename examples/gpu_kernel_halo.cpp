// Heat in a ring of cells, cut into pieces, one for each process: lcrun -n 4 gpu_kernel_halo [cells
// of a piece] [steps] [cpu]
//
// One kernel runs all steps. Each step it sends its edge cells to its neighbours, with a signal
// that counts, computes the inner cells, waits for the neighbours' signals and computes the edges.
// The host only makes progress. Compare with gpu_halo, where the host posts each step.
#include <cmath>

#include "kernel.hpp"

namespace {

namespace gpu = lci::gpu;
enum side_t { LEFT, RIGHT };

// Of cell `i` of `piece` before the first step.
double initial(int piece, int i) { return piece * 100.0 + i % 17; }
ANYWHERE inline double advanced(double left, double here, double right) {
  return here + 0.25 * (left + right - 2 * here);
}

// A piece at two moments: `at[step % 2]` is now. Cell 0 is the left neighbour's last one, then come
// its own, and the last is the right neighbour's first.
struct halo_t {
  gpu::endpoint_t endpoint;
  int cells, steps;
  int neighbour[2];
  double* at[2];
  gpu::key_t own[2], theirs[2][2];  // [moment], [side][moment]
  gpu::key_t signals_there[2];      // [side]
  const uint64_t* signals;          // from LEFT, from RIGHT
  int* result;

  // The edge on that side goes to the halo cell on the opposite side of that neighbour.
  ANYWHERE gpu::status send(side_t side, int now) const {
    const uint64_t edge = side == LEFT ? 1 : uint64_t(cells);
    const uint64_t halo = side == LEFT ? uint64_t(cells) + 1 : 0;
    const side_t there = side == LEFT ? RIGHT : LEFT;
    return gpu::put_signal<gpu::block>(
        endpoint, neighbour[side], {theirs[side][now], halo * sizeof(double)},
        {own[now], edge * sizeof(double)}, sizeof(double),
        {signals_there[side], uint64_t(there) * sizeof(uint64_t)}, 1, gpu::signal_op::add);
  }
  ANYWHERE void compute(int now, int i) const {
    at[1 - now][i] = advanced(at[now][i - 1], at[now][i], at[now][i + 1]);
  }
  ANYWHERE void operator()(thread_t me) const {
    gpu::status s = gpu::status::ok;
    for (int step = 0; step < steps && s == gpu::status::ok; ++step) {
      const int now = step % 2;
      s = send(LEFT, now);
      if (s == gpu::status::ok) s = send(RIGHT, now);
      for (int i = 2 + me.thread; i < cells; i += me.threads) compute(now, i);
      // A neighbour may be one step ahead, but then it writes the other moment.
      for (int side : {LEFT, RIGHT}) {
        if (s == gpu::status::ok)
          s = gpu::wait_until<gpu::block>(endpoint, signals + side, gpu::comparison::greater_equal,
                                          uint64_t(step) + 1, neighbour[side]);
      }
      if (s == gpu::status::ok && me.thread == 0) {
        compute(now, 1);
        if (cells > 1) compute(now, cells);
      }
      sync_block();
    }
    if (s == gpu::status::ok) s = gpu::quiet<gpu::block>(endpoint);
    if (me.thread == 0) *result = int(s);
  }
};

// The same computation by one process, without messages.
std::vector<double> reference(int pieces, int cells, int steps) {
  const int n = pieces * cells;
  std::vector<double> now(static_cast<size_t>(n)), next(now);
  for (int i = 0; i < n; ++i) now[size_t(i)] = initial(i / cells, i % cells);
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < n; ++i)
      next[size_t(i)] =
          advanced(now[size_t((i + n - 1) % n)], now[size_t(i)], now[size_t((i + 1) % n)]);
    std::swap(now, next);
  }
  return now;
}

int run(processor_t& processor, int cells, int steps) {
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  gpu::endpoint_t endpoint =
      lci::alloc_gpu_endpoint_x().gpu(processor.gpu()).gpu_proxy(lci::attr_gpu_proxy_t::progress)();
  size_t wrong = 0;
  int result = 0;
  {
    const size_t length = size_t(cells) + 2;
    shared_t<double> one(processor, length, endpoint), other(processor, length, endpoint);
    shared_t<uint64_t> signals(processor, 2, endpoint);
    int* const answer = processor.allocate<int>(1);
    std::vector<double> start(length);
    for (int i = 0; i < cells; ++i) start[size_t(i) + 1] = initial(me, i);
    processor.write(one.at, start);
    halo_t kernel{};
    kernel.endpoint = endpoint;
    kernel.cells = cells;
    kernel.steps = steps;
    kernel.result = answer;
    kernel.signals = signals.at;
    shared_t<double>* const moments[] = {&one, &other};
    for (int m : {0, 1}) kernel.at[m] = moments[m]->at, kernel.own[m] = moments[m]->key;
    for (side_t side : {LEFT, RIGHT}) {
      const int to = side == LEFT ? (me + n - 1) % n : (me + 1) % n;
      kernel.neighbour[side] = to;
      kernel.signals_there[side] = processor.read(signals.keys_of, size_t(n))[size_t(to)];
      for (int m : {0, 1})
        kernel.theirs[side][m] = processor.read(moments[m]->keys_of, size_t(n))[size_t(to)];
    }
    lci::barrier();  // all ranks have filled their cells
    processor.run(1, processor.threads(256), kernel, endpoint);
    const std::vector<double> got = processor.read(kernel.at[steps % 2], length);
    const std::vector<double> all = reference(n, cells, steps);
    for (int i = 0; i < cells; ++i)
      wrong += std::abs(got[size_t(i) + 1] - all[size_t(me * cells + i)]) > 1e-9;
    result = processor.read(answer, 1)[0];
    std::printf("rank %d on %s: %d steps by the kernel: %s, %zu of %d cells wrong\n", me,
                processor.name().c_str(), steps, gpu::text_of(gpu::status(result)), wrong, cells);
    lci::barrier();
    processor.free(answer);
  }
  lci::free_gpu_endpoint(&endpoint);
  return wrong != 0 || result != 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int cells = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 100;
  if (cells <= 0 || steps < 0)
    return std::puts("usage: lcrun -n 4 gpu_kernel_halo [cells of a piece] [steps] [cpu]"), 2;
  lci::g_runtime_init();
  int failures;
  {
    processor_t processor(lci::get_rank_me(), argc > 3 && std::string(argv[3]) == "cpu");
    failures = run(processor, cells, steps);
  }
  lci::g_runtime_fina();
  return failures;
}
