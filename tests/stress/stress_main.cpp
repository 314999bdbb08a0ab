// Random operations of every kind from many threads of many ranks: a fixed count of them, every
// byte verified where it arrives. What is lost, comes twice or is damaged is named.
//   lcrun -n 4 stress [--total=N] [--threads=T] [--devices=D] [--max-size=BYTES]
// The seed is drawn by rank 0, or taken from LCI_TEST_SEED, and printed: the same seed and shape
// repeat the same plan.
//   --patience=S              nothing new for so long is a failure (60)
//   --fault=COMMAND --fault-at=K [--fault-rank=R]
//                             rank R (0) runs a shell command when it has completed K operations
//   --cut=N [--within=MS]     there are N ranks on each machine, and each machine is to lose those
//                             of the other one, MS after the last sign of them at most; pauses in
//                             which this machine stands still do not count
//   --sabotage=DEED:KIND      spoils an operation (drop, twice, corrupt; am, send, put, signal,
//                             get), so that the run has to fail
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "tests/interface/world.hpp"
#include "tests/support/seed.hpp"
#include "worker.hpp"

namespace {

using interface_test::world;
using stress::settings;

// A misspelt flag would test less than it says.
void refuse_unknown(int argc, char** argv) {
  constexpr const char* KNOWN[] = {
      "--total=",    "--threads=",    "--devices=", "--max-size=", "--patience=", "--fault=",
      "--fault-at=", "--fault-rank=", "--cut=",     "--within=",   "--sabotage="};
  for (int i = 1; i < argc; ++i) {
    if (std::any_of(std::begin(KNOWN), std::end(KNOWN), [&](const char* name) {
          return std::strncmp(argv[i], name, std::strlen(name)) == 0;
        }))
      continue;
    std::fprintf(stderr, "stress: no such flag: %s\n", argv[i]);
    std::exit(2);
  }
}

const char* text_flag(int argc, char** argv, const char* name) {
  const std::size_t length = std::strlen(name);
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], name, length) == 0) return argv[i] + length;
  return nullptr;
}

long flag(int argc, char** argv, const char* name, long fallback) {
  const char* const text = text_flag(argc, argv, name);
  return text != nullptr ? std::atol(text) : fallback;
}

stress::shape shape_of(int argc, char** argv) {
  stress::shape shape{};
  shape.ranks = world().n;
  shape.threads = static_cast<int>(flag(argc, argv, "--threads=", 3));
  shape.actions =
      static_cast<int>(flag(argc, argv, "--total=", 12000) / (shape.ranks * shape.threads));
  shape.max_size = static_cast<std::uint32_t>(flag(argc, argv, "--max-size=", 1 << 20));
  shape.bcopy = static_cast<std::uint32_t>(lci::get_max_bcopy_size());
  return shape;
}

// "corrupt:am": the first operation of that kind between two ranks with at least a byte.
void plan_sabotage(const std::string& text, const stress::plan& work, settings* set) {
  constexpr const char* DEEDS[] = {"none", "drop", "twice", "corrupt"};
  for (const stress::action& a : work.all()) {
    const std::string kind = stress::KIND_NAMES[static_cast<int>(a.what)];
    if (a.size == 0 || (a.origin == a.peer && world().n > 1)) continue;
    for (int deed = 1; deed < 4; ++deed) {
      if (text != std::string(DEEDS[deed]) + ":" + kind) continue;
      set->sabotage = static_cast<settings::deed>(deed);
      set->spoilt = a.number;
      if (world().rank == 0) std::printf("stress: to be found: %s\n", stress::name_of(a).c_str());
      return;
    }
  }
  throw std::runtime_error("no such sabotage: " + text);
}

settings settings_of(int argc, char** argv, const stress::plan& work) {
  settings set;
  set.patience_s = flag(argc, argv, "--patience=", 60);
  set.cut = static_cast<int>(flag(argc, argv, "--cut=", 0));
  set.within_ms = flag(argc, argv, "--within=", 0);
  set.fault_rank = static_cast<int>(flag(argc, argv, "--fault-rank=", 0));
  set.fault_at = flag(argc, argv, "--fault-at=", -1);
  const char* const fault = text_flag(argc, argv, "--fault=");
  if (fault != nullptr) set.fault = fault;
  const char* const sabotage = text_flag(argc, argv, "--sabotage=");
  if (sabotage != nullptr) plan_sabotage(sabotage, work, &set);
  return set;
}

// Whatever is thrown ends the process, and with it the job.
[[noreturn]] void end_by(const std::string& who, const std::exception& error) {
  std::fprintf(stderr, "stress: rank %d%s: %s\n", world().rank, who.c_str(), error.what());
  std::_Exit(1);
}

void run_worker(stress::site& site, int thread, lci::device_t device) {
  // There until the fault was told: other threads may still complete its receives, and would find
  // its queue gone.
  std::optional<stress::worker> one;
  try {
    one.emplace(site, thread, device);
    one->run();
  } catch (const std::exception& error) {
    end_by(" thread " + std::to_string(thread), error);
  }
}

bool run_plan(const stress::plan& work, const settings& set) {
  stress::site site(work, set, world().rank);
  std::vector<std::thread> threads;
  for (int t = 0; t < work.dimensions().threads; ++t)
    threads.emplace_back(run_worker, std::ref(site), t,
                         world().devices[static_cast<std::size_t>(t) % world().devices.size()]);
  for (std::thread& thread : threads) thread.join();
  return site.verify_end();
}

void print_sums(const stress::plan& work) {
  std::uint64_t bytes = 0;
  for (const stress::action& a : work.all()) bytes += a.size;
  const stress::shape& d = work.dimensions();
  std::printf("stress: %d ranks, %d threads, %zu operations, %llu bytes: ok\n", d.ranks, d.threads,
              work.all().size(), static_cast<unsigned long long>(bytes));
}

void run(int argc, char** argv) {
  // Ranks that are lost are counted, also where nothing was under way with them.
  lci::g_runtime_init_x().failure_notice(lci::attr_failure_notice_t::all)();
  world().rank = lci::get_rank_me();
  world().n = lci::get_rank_n();
  world().devices.push_back(lci::get_default_device());
  for (long i = flag(argc, argv, "--devices=", 1); i > 1; --i)
    world().devices.push_back(lci::alloc_device());
  world().device = world().devices.front();

  std::uint64_t seed = world().rank == 0 ? lci::test::test_seed() : 0;
  lci::broadcast(&seed, sizeof seed, 0);
  const stress::plan work(shape_of(argc, argv), seed);
  if (!run_plan(work, settings_of(argc, argv, work))) std::_Exit(1);
  while (world().devices.size() > 1) {
    lci::free_device(&world().devices.back());
    world().devices.pop_back();
  }
  lci::g_runtime_fina();
  if (world().rank == 0) print_sums(work);
}

}  // namespace

int main(int argc, char** argv) {
  refuse_unknown(argc, argv);
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    // Such as the end of a peer that found a fault while this rank was not yet through the barrier.
    end_by("", error);
  }
  return 0;
}
