// A process of a job that uses nothing but the bootstrap. The tests of lcrun and of the bootstraps
// start it; its arguments say what it does, one word after the other.
//
//   exchange <n>      n rounds: put, fence, compare what every rank had put; prints nothing
//   say <text>        prints "<text> <rank>/<size> <backend>"
//   lines <n>         n lines of 100 letters, written in pieces that end anywhere
//   reopen            leaves the job and joins again
//   kill <rank> <sig> that rank sends itself a signal
//   die <rank> <ms>   that rank is on its way out; it takes part in an exchange, and so long after
//                     that it is over, killed by signal 9
//   exit <rank> <st>  that rank ends with this status, without leaving the job
//   hang              waits for a signal
//   own_group         prints the numbers of its process and of a child that sleeps
//   fds               fails if there are more descriptors than at the last fds
#include <dirent.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

#include "lci/boot/choose.hpp"

namespace {

using lci::boot::bootstrap;

std::string value_of(int rank, int round) {
  // Every byte value, and lengths that differ between ranks and rounds.
  std::string value = std::to_string(rank) + ":" + std::to_string(round) + ":";
  for (int i = 0; i < 100 + rank + 13 * round; ++i) value += static_cast<char>(i + rank);
  return value;
}

void exchange(bootstrap& boot, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    boot.put("key", value_of(boot.rank(), round));
    boot.fence();
    for (int r = 0; r < boot.size(); ++r) {
      if (boot.get(r, "key") != value_of(r, round)) {
        std::fprintf(stderr, "rank %d: wrong value of rank %d\n", boot.rank(), r);
        std::exit(9);
      }
    }
  }
}

void print_lines(int rank, int count) {
  std::string all;
  for (int i = 0; i < count; ++i)
    all += std::string(100, static_cast<char>('a' + rank % 26)) + "\n";
  // Pieces of a length that never agrees with a line.
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t size = std::min<std::size_t>(37, all.size() - at);
    const ssize_t n = ::write(STDOUT_FILENO, all.data() + at, size);
    if (n <= 0) std::exit(8);
    at += static_cast<std::size_t>(n);
  }
}

int count_descriptors() {
  int count = 0;
  DIR* dir = ::opendir("/proc/self/fd");
  while (::readdir(dir) != nullptr) ++count;
  ::closedir(dir);
  return count;
}

[[noreturn]] void hang() {
  for (;;) ::pause();
}

bool is_first_thread_over() {
  std::ifstream in("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return text.compare(text.rfind(')') + 1, 2, " Z") == 0;
}

// The first thread ends and another one lives on: seen from outside, a process that was killed and
// whose last thread has not come to its end.
[[noreturn]] void die(bootstrap& boot, int ms) {
  std::thread([&boot, ms] {
    while (!is_first_thread_over()) std::this_thread::yield();
    exchange(boot, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    ::raise(SIGKILL);
  }).detach();
  for (;;) ::syscall(SYS_exit, 0);
}

void show_group() {
  const pid_t child = ::fork();
  if (child == 0) hang();
  std::printf("%d %d\n", static_cast<int>(::getpid()), static_cast<int>(child));
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  lci::boot::board_cache cache;
  std::unique_ptr<bootstrap> boot = lci::boot::open_bootstrap(cache);
  int descriptors = -1;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] { return std::atoi(argv[++i]); };
    if (word == "exchange") {
      exchange(*boot, number());
    } else if (word == "say") {
      std::printf("%s %d/%d %s\n", argv[++i], boot->rank(), boot->size(), boot->name());
      std::fflush(stdout);
    } else if (word == "lines") {
      print_lines(boot->rank(), number());
    } else if (word == "reopen") {
      boot.reset();
      boot = lci::boot::open_bootstrap(cache);
    } else if (word == "kill") {
      const int rank = number(), signal = number();
      if (rank == boot->rank()) ::raise(signal);
    } else if (word == "die") {
      const int rank = number(), ms = number();
      if (rank == boot->rank()) die(*boot, ms);
    } else if (word == "exit") {
      const int rank = number(), status = number();
      if (rank == boot->rank()) ::_exit(status);
    } else if (word == "hang") {
      hang();
    } else if (word == "own_group") {
      show_group();
    } else if (word == "fds") {
      const int now = count_descriptors();
      if (descriptors >= 0 && now > descriptors) {
        std::fprintf(stderr, "%d descriptors, there were %d\n", now, descriptors);
        return 7;
      }
      descriptors = now;
    } else {
      std::fprintf(stderr, "boot_probe: unknown word %s\n", word.c_str());
      return 2;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "boot_probe: %s\n", error.what());
    return 5;
  }
}
