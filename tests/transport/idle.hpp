// Many transports that have nothing to do, for tests of event loops, and what shows that nothing
// runs.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "both_ends.hpp"

namespace transport_test {

inline int threads_now() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int n = 0;
    if (word == "Threads:" && status >> n) return n;
  }
  return -1;
}

// Of all the timers of this process, those that will fire (proc(5): fdinfo of a timerfd).
inline int timers_armed() {
  int armed = 0;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream info(one.path());
    for (std::string line; std::getline(info, line);)
      armed += line.rfind("it_value:", 0) == 0 && line.find("(0, 0)") == std::string::npos;
  }
  return armed;
}

// Where each takes much: some 140 MB with a layer of libfabric between, and over verbs all of its
// packets, which are pinned.
inline bool is_heavy() {
  if (std::getenv("LCI_TEST_PROVIDER") == nullptr) return false;
  both_ends e;
  e.connect();
  const std::string text = e.a.describe();
  return text.find(";ofi_rxm") != std::string::npos ||
         text.find("backend ibv") != std::string::npos;
}

// As many as descriptors allow, at most 1000, or 200 over libfabric, or few where each takes much;
// the limit is raised as far as the system lets us.
inline int most_transports(bool are_heavy) {
  int most = 1000;
  if (std::getenv("LCI_TEST_PROVIDER") != nullptr) most = are_heavy ? 20 : 200;
  if (lci::test::IS_SANITIZED) most = std::min(most, 100);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(most, (limit.rlim_cur - 100) / 16));
}

// For how long a loop is watched in which nothing is to happen.
inline int idle_seconds() {
  const char* const wanted = std::getenv("LCI_TEST_IDLE_S");
  return wanted != nullptr ? std::atoi(wanted) : 1;
}

// What this thread has used of a processor, and how often it has slept.
struct thread_use {
  double processor_us = 0;
  long sleeps = 0;
};
inline thread_use used_by_this_thread() {
  rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  return {1e6 * static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
              static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec),
          used.ru_nvcsw};
}

// So many ends, two by two: connected, and each connection has been used once.
struct idle_ends {
  explicit idle_ends(int transports) {
    for (int i = 0; i < transports / 2; ++i) {
      pairs.push_back(std::make_unique<both_ends>());
      both_ends& e = *pairs.back();
      e.connect();
      e.a.write(source.view(), target.remote(), true);
      e.note_of(e.b);
    }
  }
  std::vector<lci::transport*> all() const {
    std::vector<lci::transport*> out;
    for (const auto& e : pairs) out.insert(out.end(), {&e->a, &e->b});
    return out;
  }
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(64);
  std::vector<std::uint8_t> there = std::vector<std::uint8_t>(64);
  lci::memory source{bytes.data(), 64}, target{there.data(), 64};
  std::vector<std::unique_ptr<both_ends>> pairs;
};

}  // namespace transport_test
