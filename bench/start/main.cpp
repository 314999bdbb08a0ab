// bench_start, under lcrun: a process that initializes the library, meets the others in a barrier
// and ends. It prints, as one line of JSON, when it completed each step and how much processor time
// that took; bench/start/run starts many and adds up. The benchmark does no communication of its
// own in between.
#include <cstdint>
#include <cstdio>
#include <ctime>

#include "lci.hpp"

namespace {

struct moment {
  const char* step;
  double wall_ms, cpu_ms;
};

double milliseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// Processor time counts from the fork, so the first step includes exec and the loading of
// libraries.
moment reached(const char* step) {
  return {step, milliseconds(CLOCK_MONOTONIC), milliseconds(CLOCK_PROCESS_CPUTIME_ID)};
}

}  // namespace

int main() {
  moment moments[5] = {reached("load")};
  lci::global_initialize();
  moments[1] = reached("bootstrap");
  lci::g_runtime_init();
  moments[2] = reached("runtime");
  lci::barrier();
  moments[3] = reached("barrier");
  lci::g_runtime_fina();
  lci::global_finalize();
  moments[4] = reached("end");
  std::printf("{");
  for (const moment& m : moments)
    std::printf("%s\"%s\": [%.3f, %.3f]", &m == moments ? "" : ", ", m.step, m.wall_ms, m.cpu_ms);
  std::printf("}\n");
  return 0;
}
