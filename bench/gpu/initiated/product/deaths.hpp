// How soon a kernel that waits for a rank ends when that rank is killed. A job of one process with
// a GPU and several without, which are killed one after the other. Threads: single; the processes
// are forked before anything of CUDA or lci is used.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/gpu/initiated/product/ends.hpp"

namespace bench {

inline void join_job(const std::string& folder, int rank, int ranks) {
  setenv("LCT_PMI_BACKEND", "file", 1);
  setenv("LCT_PMI_FILE_DIR", folder.c_str(), 1);
  setenv("LCT_PMI_FILE_NRANKS", std::to_string(ranks).c_str(), 1);
  setenv("LCT_PMI_FILE_RANK", std::to_string(rank).c_str(), 1);
  setenv("LCI_ATTR_BACKEND", "shm", 1);
  setenv("LCI_ATTR_FAILURE_NOTICE", "all", 1);
}

// The file bootstrap wants a directory, and all ranks a barrier: then they only live.
[[noreturn]] inline void be_victim(const std::string& folder, int rank, int ranks) {
  join_job(folder, rank, ranks);
  const lci::runtime_t runtime = lci::alloc_runtime_x().gpu_resident(0)();
  lci::barrier_x().runtime(runtime)();
  for (;;) {
    try {
      lci::progress_x().runtime(runtime)();
    } catch (const lci::peer_failure_error&) {  // of a victim before this one
    }
    usleep(1000);
  }
}

struct deaths_found {
  found from_kill, from_notice;
};
inline deaths_found time_deaths(processor& on, const std::vector<pid_t>& victims) {
  job of(on, 0, 1);
  lci::barrier_x().runtime(of.runtime())();
  memory words(on, of, 4096, kind::of_gpu);
  pinned_words told(on, 3);
  endpoint_wanted e;
  e.depth = 16;
  endpoint end(on, of, e);
  heard all;
  deaths_found out;
  for (std::size_t i = 0; i < victims.size(); ++i) {
    doomed d;
    d.endpoint = end.handle();
    d.never = words.word(0);
    d.rank = static_cast<int>(i) + 1;
    begin_to_wait(on, d, told, std::chrono::milliseconds(1));
    const std::uint64_t begin = host_ns();
    kill(victims[i], SIGKILL);
    std::uint64_t ended_at = 0, noticed_at = 0;
    while ((ended_at == 0 || noticed_at == 0) && host_ns() - begin < PATIENCE_NS) {
      if (ended_at == 0 && on.is_over(0)) ended_at = host_ns();
      const std::string what = thrown_within(of, 0);
      if (what.empty()) continue;
      all.host(what);
      if (noticed_at == 0) noticed_at = host_ns();
    }
    if (ended_at == 0) throw std::runtime_error("a kernel does not end with its peer");
    all.kernel(status_in(told.at(2)));
    out.from_kill.values.push_back(static_cast<double>(ended_at - begin) / 1e3);
    if (noticed_at != 0)
      out.from_notice.values.push_back(
          ended_at > noticed_at ? static_cast<double>(ended_at - noticed_at) / 1e3 : 0);
  }
  out.from_kill.more = out.from_notice.more = all.text();
  return out;
}

// Answers the exit status of the process that measures; `measure` runs there, with the victims.
template <class Measure>
int with_victims(int count, Measure measure) {
  char folder[] = "/tmp/bench_gpu_product.XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  std::vector<pid_t> victims;
  for (int rank = 1; rank <= count; ++rank) {
    const pid_t child = fork();
    if (child == 0) be_victim(folder, rank, count + 1);
    if (child > 0) victims.push_back(child);
  }
  // A job without one of its ranks would never start.
  const pid_t survivor = victims.size() == static_cast<std::size_t>(count) ? fork() : -1;
  if (survivor == 0) {
    join_job(folder, 0, count + 1);
    _exit(measure(victims));
  }
  int status = 0;
  // Of -1 it would wait for the victims, which do not end by themselves.
  const bool has_ended = survivor > 0 && waitpid(survivor, &status, 0) == survivor;
  for (const pid_t one : victims) {
    kill(one, SIGKILL);
    waitpid(one, nullptr, 0);
  }
  std::filesystem::remove_all(folder);
  return has_ended && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace bench
