// Random operations from many threads of many ranks, every byte verified, a fixed count of them.
//   lcrun -n 4 stress [--threads=T] [--devices=D] [--actions=K] [--max-size=BYTES] [--long]
// The seed is drawn by rank 0, or taken from LCI_TEST_SEED, and printed: the same seed and shape
// repeat the same plan.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/interface/world.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/watchdog.hpp"
#include "worker.hpp"

namespace {

using interface_test::world;

long flag(int argc, char** argv, const char* name, long fallback) {
  const std::size_t length = std::strlen(name);
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], name, length) == 0) return std::atol(argv[i] + length);
  return fallback;
}

std::vector<lci::rmr_t> keys_of(interface_test::window& w) {
  std::vector<lci::rmr_t> keys;
  for (int rank = 0; rank < world().n; ++rank) keys.push_back(w.rmr(rank));
  return keys;
}

// One thread; whatever it throws ends the process, and with it the job.
void run_worker(stress::site& site, int thread, lci::device_t device) {
  try {
    stress::worker(site, thread, device).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stress: rank %d thread %d: %s\n", site.rank, thread, error.what());
    std::_Exit(1);
  }
}

void run_plan(const stress::plan& work) {
  const stress::shape& d = work.dimensions();
  const std::size_t slots = static_cast<std::size_t>(d.ranks) * static_cast<std::size_t>(d.threads);
  const std::size_t slot = std::max<std::size_t>(d.max_size, 2 * std::size_t{d.bcopy});
  interface_test::inbox box(true);
  interface_test::window written(slots * slot), constant(2 * slot);
  const std::vector<char> content =
      interface_test::pattern(2 * slot, stress::constant_seed(world().rank));
  std::copy(content.begin(), content.end(), constant.bytes().begin());
  interface_test::barrier();

  stress::site site{work,
                    world().rank,
                    box.cq(),
                    box.rcomp(),
                    slot,
                    keys_of(written),
                    keys_of(constant),
                    2 * slot,
                    {},
                    work.messages_to(world().rank)};
  site.busy = d.threads;
  for (std::size_t i = 0; i < slots; ++i)
    site.seen.emplace_back(new std::atomic<bool>[static_cast<std::size_t>(d.actions)]());
  std::vector<std::thread> threads;
  for (int t = 0; t < d.threads; ++t)
    threads.emplace_back(run_worker, std::ref(site), t,
                         world().devices[static_cast<std::size_t>(t) % world().devices.size()]);
  for (std::thread& thread : threads) thread.join();
  // The others may still need what waits in our queues.
  interface_test::barrier_over(world().devices);
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_long = flag(argc, argv, "--long", -1) != -1;
  lci::g_runtime_init();
  world().rank = lci::get_rank_me();
  world().n = lci::get_rank_n();
  world().devices.push_back(lci::get_default_device());
  for (long i = flag(argc, argv, "--devices=", 1); i > 1; --i)
    world().devices.push_back(lci::alloc_device());
  world().device = world().devices.front();

  stress::shape shape{};
  shape.ranks = world().n;
  shape.threads = static_cast<int>(flag(argc, argv, "--threads=", 3));
  shape.actions = static_cast<int>(flag(argc, argv, "--actions=", is_long ? 50000 : 1500));
  shape.max_size =
      static_cast<std::uint32_t>(flag(argc, argv, "--max-size=", is_long ? 4 << 20 : 200000));
  shape.bcopy = static_cast<std::uint32_t>(lci::get_max_bcopy_size());
  std::uint64_t seed = world().rank == 0 ? lci::test::test_seed() : 0;
  lci::broadcast(&seed, sizeof seed, 0);
  {
    const lci::test::watchdog watchdog("stress, rank " + std::to_string(world().rank), {},
                                       std::chrono::seconds(is_long ? 900 : 90));
    run_plan(stress::plan(shape, seed));
  }
  while (world().devices.size() > 1) {
    lci::free_device(&world().devices.back());
    world().devices.pop_back();
  }
  lci::g_runtime_fina();
  if (world().rank == 0)
    std::printf("stress: %d ranks, %d threads, %d actions each: ok\n", shape.ranks, shape.threads,
                shape.actions);
  return 0;
}
