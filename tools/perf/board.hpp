// The page that lci_perf shares with the processes that it measures: orders to them, and what they
// found out. It belongs to no library under test, so all of them are started, timed and stopped in
// the same way, and the ones whose turn it is not sleep.
// Called by: the program itself (contestant), and the processes of each library (worker).
// Threads: the program writes an order; each seat, a thread of a measured process, writes the
// results of its own number only.
// Always true: an order changes only while every seat waits for the next one. Header only: the
// processes of a rival are compiled with that library's own compiler wrapper.
#pragma once

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>

namespace lci_perf {

enum class operation : std::uint32_t { am, sendrecv, put, get };
enum class measure : std::uint32_t { latency, rate, bandwidth, overlap };

constexpr std::uint32_t bit(operation op) { return 1u << static_cast<std::uint32_t>(op); }

constexpr int MOST_SEATS = 512;
// Messages that may be on their way where each one needs a posted receive.
constexpr std::uint32_t MOST_IN_WINDOW = 64;
constexpr const char* BOARD_VARIABLE = "LCI_PERF_BOARD";
constexpr const char* RANK_VARIABLE = "LCI_PERF_RANK";

// Messages of that size after which their arrival is counted, `most` of short ones. Long ones are
// counted before contestant::await() takes a slow measurement for one that does not go on.
constexpr std::uint64_t step_of(std::uint64_t size, std::uint64_t most) {
  constexpr std::uint64_t BYTES = 64u << 20;
  return std::clamp<std::uint64_t>(BYTES / size, 1, most);
}

struct order {
  measure what = measure::latency;
  operation op = operation::am;
  std::uint64_t size = 8;     // bytes of a message
  std::uint64_t count = 1;    // messages, or round trips, of each pair
  std::uint32_t window = 1;   // messages from one answer to the next; `count` is a multiple of it
  std::uint32_t is_last = 0;  // no order: leave
};

// What one seat has measured.
struct result {
  std::uint64_t begin_ns = 0, end_ns = 0;  // on the clock that all processes of the host share
  std::uint64_t messages = 0;              // that arrived here; grows while an order is executed
  double hidden = 0;                       // overlap: share of the transfer behind the computation
};

// Pairs of lines are fetched together on some processors.
struct alignas(128) line {
  std::atomic<std::uint64_t> value;
};

// What a seat's process tells the others of how to reach it, for libraries without a launcher.
struct card {
  std::atomic<std::uint32_t> size;  // bytes; 0: not there yet
  char bytes[8188];
};

struct board {
  // Set before the processes start.
  std::uint32_t pairs, seats;  // two seats for each pair: 2 * pair, and 2 * pair + 1 its target
  std::uint32_t is_threads;    // two processes with a thread for each pair, else two for each pair
  std::uint32_t is_shared;     // the threads of a process share one device
  std::uint32_t is_gpu;        // buffers are in GPU memory
  std::uint64_t largest;       // bytes of the largest message
  std::int32_t cpus[MOST_SEATS];

  order now;
  alignas(128) std::atomic<std::uint32_t> number;  // of the order; seats sleep on it
  alignas(128) std::atomic<std::uint32_t> ready;   // seats that have ended an order, in total
  std::atomic<std::uint32_t> operations;           // bits of those that the library has
  line arrived, begun;                             // the meeting before a measurement
  line finished[MOST_SEATS / 2];                   // of each pair: measurements that are over
  result results[MOST_SEATS];
  card cards[MOST_SEATS];
  char version[128];  // of the library under test
  char error[512];    // why it does not go on; empty: it does
};

inline std::uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(t.tv_nsec);
}

// False if this thread may not use that processor, with errno. Less than 0: any.
inline bool try_pin_to(int cpu) {
  if (cpu < 0) return true;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  return sched_setaffinity(0, sizeof one, &one) == 0;
}
inline void pin_to(int cpu) {
  if (!try_pin_to(cpu))
    throw std::runtime_error("sched_setaffinity to processor " + std::to_string(cpu) + ": " +
                             std::strerror(errno));
}

// Pins this thread for as long as the object lives.
class pinned {
 public:
  explicit pinned(int cpu) : is_saved_(sched_getaffinity(0, sizeof before_, &before_) == 0) {
    pin_to(cpu);
  }
  ~pinned() {
    if (is_saved_) sched_setaffinity(0, sizeof before_, &before_);
  }
  pinned(const pinned&) = delete;
  pinned& operator=(const pinned&) = delete;

 private:
  cpu_set_t before_;
  bool is_saved_;
};

// Sleeps until the word may have changed, or for a tenth of a second.
inline void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t while_it_is) {
  timespec limit{0, 100'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, while_it_is, &limit, nullptr, 0);
}
inline void wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// A step of waiting for another process: it is likely to be on another core, and may be on ours.
// Without a pause, whose length would be part of the result.
class patience {
 public:
  void operator()() {
    if (++spins_ % (1u << 14) == 0) sched_yield();
  }

 private:
  unsigned spins_ = 0;
};

// The board of the job that this process belongs to; the program itself made it.
inline board& join_board() {
  const char* const path = std::getenv(BOARD_VARIABLE);
  if (path == nullptr) throw std::runtime_error("started by hand: lci_perf starts this program");
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  void* const at =
      fd < 0 ? MAP_FAILED : mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) throw std::runtime_error(std::string("cannot map ") + path);
  close(fd);
  return *static_cast<board*>(at);
}

}  // namespace lci_perf
