// Two pinned processes and a page that both see: the raw hand-over of a cache line between their
// two cores (R), a meeting point that does not involve the library under test, and the timing of
// patterns in units of R. Used by every two-process benchmark, lci's and those of other libraries,
// so that all are measured by the same clock, on the same cores, against the same R. Threads: one
// per process.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/perf/board.hpp"

namespace bench {

using lci_perf::now_ns;

inline double median(std::vector<double> values) {
  if (values.empty()) return std::nan("");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The numbers of a list N,N,..; `name` says where it stands. Throws if one is no number from
// `least` to `most`.
inline std::vector<std::size_t> numbers_in(const char* name, const std::string& list,
                                           std::size_t least, std::size_t most) {
  std::vector<std::size_t> numbers;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    const bool has_digits_alone =
        !part.empty() && part.size() < 19 &&
        std::all_of(part.begin(), part.end(), [](char c) { return '0' <= c && c <= '9'; });
    const std::size_t number = has_digits_alone ? std::stoull(part) : 0;
    if (!has_digits_alone || number < least || number > most)
      throw std::invalid_argument(std::string(name) + ": \"" + part + "\" is not a number from " +
                                  std::to_string(least) + " to " + std::to_string(most));
    numbers.push_back(number);
  }
  if (numbers.empty()) throw std::invalid_argument(std::string(name) + " is an empty list");
  return numbers;
}

// Binds this process to the rank-th of the processors it may use, or of those that BENCH_CPUS
// lists.
inline void pin(int rank) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<int> cpus;
  if (const char* list = std::getenv("BENCH_CPUS")) {
    for (const std::size_t cpu : numbers_in("BENCH_CPUS", list, 0, CPU_SETSIZE - 1))
      cpus.push_back(static_cast<int>(cpu));
  } else {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
    }
  }
  cpu_set_t mine;
  CPU_ZERO(&mine);
  CPU_SET(cpus[static_cast<std::size_t>(rank) % cpus.size()], &mine);
  if (sched_setaffinity(0, sizeof mine, &mine) != 0) std::perror("bench: sched_setaffinity");
}

// Where the page is: the process that made it, and the page's descriptor there.
struct page_name {
  int pid = 0;
  int fd = -1;
};

class pair {
 public:
  // `broadcast` sends the page_name of rank 0 to all, by whatever means the library under test has.
  template <class Broadcast>
  pair(int rank, Broadcast broadcast) : rank_(rank) {
    page_name name;
    if (rank == 0) {
      name.pid = getpid();
      name.fd = memfd_create("bench-page", MFD_CLOEXEC);
      if (ftruncate(name.fd, sizeof(page)) != 0) fail("ftruncate");
    }
    broadcast(&name, sizeof name);
    const std::string path = "/proc/" + std::to_string(name.pid) + "/fd/" + std::to_string(name.fd);
    const int fd = rank == 0 ? name.fd : open(path.c_str(), O_RDWR | O_CLOEXEC);
    void* const at = mmap(nullptr, sizeof(page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) fail(path.c_str());
    page_ = static_cast<page*>(at);
  }

  int rank() const { return rank_; }
  bool is_first() const { return rank_ == 0; }

  // Returns when both are here. The library under test must have no work left for the other side.
  void meet() {
    const std::uint64_t round = ++meetings_;
    page_->here[rank_].value.store(round, std::memory_order_release);
    wait(page_->here[1 - rank_].value, round);
  }

  // A number that one side sets and the other waits for, without the library under test.
  void signal(std::uint64_t value) {
    page_->flag[rank_].value.store(value, std::memory_order_release);
  }
  bool signalled(std::uint64_t value) const {
    return page_->flag[1 - rank_].value.load(std::memory_order_acquire) >= value;
  }

  // R in nanoseconds, measured by both together: half of the round trip of one line, by plain
  // stores and loads.
  double handover_ns(int rounds = 1000) {
    meet();
    const std::uint64_t base = ball_;
    ball_ += 2 * static_cast<std::uint64_t>(rounds);
    const std::uint64_t start = now_ns();
    for (int i = 0; i < rounds; ++i) {
      const std::uint64_t ping = base + 2 * static_cast<std::uint64_t>(i) + 1;
      if (is_first()) {
        page_->ball.value.store(ping, std::memory_order_release);
        wait(page_->ball.value, ping + 1);
      } else {
        wait(page_->ball.value, ping);
        page_->ball.value.store(ping + 1, std::memory_order_release);
      }
    }
    return static_cast<double>(now_ns() - start) / (2.0 * rounds);
  }

 private:
  struct alignas(128) line {  // pairs of lines are fetched together on some processors
    std::atomic<std::uint64_t> value;
  };
  struct page {
    line ball, here[2], flag[2];
  };

  [[noreturn]] static void fail(const char* what) {
    std::perror((std::string("bench: the common page: ") + what).c_str());
    std::exit(1);
  }
  // Without a pause, whose length would be part of the result; with a yield, in case both processes
  // were put on one core.
  static void wait(const std::atomic<std::uint64_t>& value, std::uint64_t least) {
    for (unsigned spins = 0; value.load(std::memory_order_acquire) < least;) {
      if (++spins % (1u << 20) == 0) sched_yield();
    }
  }

  int rank_;
  page* page_ = nullptr;
  std::uint64_t meetings_ = 0;
  std::uint64_t ball_ = 0;
};

// Sizes of the bandwidth patterns, whose buffers have `largest` bytes: those that BENCH_SIZES
// lists, else the usual ones.
inline std::vector<std::size_t> bandwidth_sizes(std::size_t largest) {
  if (const char* list = std::getenv("BENCH_SIZES"))
    return numbers_in("BENCH_SIZES", list, 1, largest);
  std::vector<std::size_t> usual;
  for (std::size_t size = 8; size <= largest; size *= size < largest / 2 ? 4 : 2)
    usual.push_back(size);
  return usual;
}

// One line of JSON on standard output; bench/run collects them.
struct result {
  const char* bench;  // which pattern
  const char* who;    // which library
  std::string what;   // variant: size, mode
  double value;       // median
  const char* unit;
  double r_ns = 0;   // R of the same seconds; 0: not measured
  double ratio = 0;  // median of the ratios to R; 0: none
  double low = 0;    // smallest and largest value of all blocks
  double high = 0;
};

inline void report(const result& r) {
  std::printf(
      "{\"bench\": \"%s\", \"who\": \"%s\", \"what\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", "
      "\"r_ns\": %.6g, \"ratio\": %.6g, \"low\": %.6g, \"high\": %.6g}\n",
      r.bench, r.who, r.what.c_str(), r.value, r.unit, r.r_ns, r.ratio, r.low, r.high);
  std::fflush(stdout);
}

// Repeats {R, pattern, R}. `measure()` runs the pattern on both sides and returns nanoseconds. On
// virtual machines R changes when the host moves a core, so only blocks with a steady R count,
// unless there are hardly any: then all do.
template <class Measure>
result in_units_of_r(pair& both, const char* bench, const char* who, std::string what, int blocks,
                     Measure measure) {
  struct sample {
    double value, before, after;
    double r() const { return (before + after) / 2; }
    bool is_steady() const { return std::abs(before - after) <= 0.2 * std::min(before, after); }
  };
  std::vector<sample> samples;
  for (int block = 0; block < blocks; ++block) {
    sample s{};
    s.before = both.handover_ns();
    both.meet();
    s.value = measure();
    s.after = both.handover_ns();
    samples.push_back(s);
  }
  const auto steady =
      std::count_if(samples.begin(), samples.end(), [](const sample& s) { return s.is_steady(); });
  std::vector<double> values, rs, ratios;
  for (const sample& s : samples) {
    if (steady >= 5 && !s.is_steady()) continue;
    values.push_back(s.value);
    rs.push_back(s.r());
    ratios.push_back(s.value / s.r());
  }
  result r{bench, who, std::move(what), median(values), "ns"};
  r.r_ns = median(rs);
  r.ratio = median(ratios);
  r.low = *std::min_element(values.begin(), values.end());
  r.high = *std::max_element(values.begin(), values.end());
  return r;
}

}  // namespace bench
