// How long after a kill the survivor is told of it, over shared memory: median and 99 % of many
// jobs of two ranks. The survivor kills its peer and makes progress, as it would anyway, until that
// throws. The time includes what the kernel needs to end a process, and the wait for a core if
// fewer than two are free: so the cores and the load are printed beside it.
//   bench_deaths [kills (1000)] [MiB that the victim has in use (0)]
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "lci.hpp"

namespace {

using clock_type = std::chrono::steady_clock;
// For the start, and for a notice that may never come: SIGALRM ends the survivor, and the kill
// counts as one that was not noticed.
constexpr unsigned PATIENCE_S = 60;

void start(const std::string& folder, int rank) {
  setenv("LCT_PMI_BACKEND", "file", 1);
  setenv("LCT_PMI_FILE_DIR", folder.c_str(), 1);
  setenv("LCT_PMI_FILE_NRANKS", "2", 1);
  setenv("LCT_PMI_FILE_RANK", std::to_string(rank).c_str(), 1);
  setenv("LCI_ATTR_BACKEND", "shm", 1);
  lci::g_runtime_init();
  lci::barrier();
}

[[noreturn]] void be_victim(const std::string& folder, std::size_t used) {
  std::vector<char> memory(used, 1);
  start(folder, 1);
  for (;;) lci::progress();
}

// Writes how many milliseconds it took.
[[noreturn]] void survive(const std::string& folder, pid_t victim, int out) {
  alarm(PATIENCE_S);
  start(folder, 0);
  char byte;
  const lci::comp_t done = lci::alloc_sync();
  lci::post_recv_x(1, &byte, 1, 7, done).allow_done(false)();
  alarm(PATIENCE_S);
  const auto begin = clock_type::now();
  kill(victim, SIGKILL);
  double ms = -1;
  try {
    for (;;) lci::progress();
  } catch (const lci::peer_failure_error&) {
    ms = std::chrono::duration<double, std::milli>(clock_type::now() - begin).count();
  }
  const bool is_written = write(out, &ms, sizeof(ms)) == sizeof(ms);
  _exit(is_written ? 0 : 1);
}

// -1 without a process: kill() and waitpid() would take that for all processes.
template <class Body>
pid_t in_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) body();
  if (child < 0) std::perror("bench_deaths: fork");
  return child;
}

double one_kill(std::size_t used) {
  char folder[] = "/tmp/bench_deaths.XXXXXX";
  int ends[2];
  if (mkdtemp(folder) == nullptr || pipe(ends) != 0) return -1;
  // Only the survivor holds the write end: once it has ended, there is nothing left to wait for.
  const pid_t victim = in_child([&] {
    close(ends[0]);
    close(ends[1]);
    be_victim(folder, used);
  });
  pid_t survivor = -1;
  if (victim > 0) {
    survivor = in_child([&] {
      close(ends[0]);
      survive(folder, victim, ends[1]);
    });
  }
  close(ends[1]);
  double ms = -1;
  const bool is_read = read(ends[0], &ms, sizeof(ms)) == sizeof(ms);
  close(ends[0]);
  if (survivor > 0) waitpid(survivor, nullptr, 0);
  if (victim > 0) {
    kill(victim, SIGKILL);
    waitpid(victim, nullptr, 0);
  }
  std::filesystem::remove_all(folder);
  return is_read ? ms : -1;
}

// Processes that ran or wanted to, on average over the last minute.
double load() {
  double minute = -1;
  return getloadavg(&minute, 1) == 1 ? minute : -1;
}

}  // namespace

int main(int count, char** arguments) {
  const long kills = count > 1 ? std::atol(arguments[1]) : 1000;
  const std::size_t mib = count > 2 ? std::strtoul(arguments[2], nullptr, 10) : 0;
  const double before = load();
  std::vector<double> all;
  for (long i = 0; i < kills; ++i) {
    const double ms = one_kill(mib << 20);
    if (ms >= 0) all.push_back(ms);
  }
  if (all.empty()) {
    std::fprintf(stderr, "bench_deaths: 0 of %ld kills noticed\n", kills);
    return 1;
  }
  std::sort(all.begin(), all.end());
  const auto at = [&](double share) {
    return all[static_cast<std::size_t>(share * static_cast<double>(all.size() - 1))];
  };
  std::printf(
      "%zu of %ld kills noticed; ms from kill to notice: median %.2f, 99 %% %.2f, most %.2f\n",
      all.size(), kills, at(0.5), at(0.99), all.back());
  std::printf("on %ld processors; load %.2f before, %.2f at the end\n",
              sysconf(_SC_NPROCESSORS_ONLN), before, load());
  return all.size() == static_cast<std::size_t>(kills) ? 0 : 1;
}
