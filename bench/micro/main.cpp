// bench_patterns NAME [ARGUMENT...], under lcrun: runs one pattern and prints its results as lines
// of JSON.
#include <cstdio>
#include <cstring>
#include <exception>

#include "bench/micro/programs.hpp"

namespace {

struct entry {
  const char* name;
  int (*run)(const bench::arguments&);
};
constexpr entry PROGRAMS[] = {
    {"raw_handover", bench::raw_handover},
    {"am_latency", bench::am_latency},
    {"am_rate", bench::am_rate},
    {"sendrecv_latency", bench::sendrecv_latency},
    {"sendrecv_rate", bench::sendrecv_rate},
    {"bandwidth", bench::bandwidth},
    {"startup", bench::startup},
    {"memory", bench::memory},
};

}  // namespace

int main(int argc, char** argv) try {
  for (const entry& program : PROGRAMS) {
    if (argc > 1 && std::strcmp(argv[1], program.name) == 0) {
      return program.run(bench::arguments(argv + 2, argv + argc));
    }
  }
  std::fprintf(stderr, "usage: lcrun -n 2 bench_patterns NAME [ARGUMENT...]\nnames:");
  for (const entry& program : PROGRAMS) std::fprintf(stderr, " %s", program.name);
  std::fprintf(stderr, "\n");
  return 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_patterns: %s\n", e.what());
  return 1;
}
