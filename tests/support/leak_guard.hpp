// Fails a test that leaves something behind: descriptors, threads, and whatever else it is told to
// look at.
//
// A member of a fixture (or a local) made before the things it watches. Threads: single.
// Always true: check() compares with what was there when the guard was made, so leftovers of others
// do not count.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lci::test {

class leak_guard {
 public:
  leak_guard();
  // Reports every leak as a test failure, unless check() already did.
  ~leak_guard();
  leak_guard(const leak_guard&) = delete;
  leak_guard& operator=(const leak_guard&) = delete;

  // `count` is asked in check() and has to answer 0: packets outstanding, registrations alive.
  void expect_zero(std::string what, std::function<std::size_t()> count);
  // One line per thing that was not there before; empty when all is well.
  std::vector<std::string> leaks() const;
  // Reports leaks now, while the things that expect_zero() asks are still alive.
  void check();

 private:
  struct counter {
    std::string what;
    std::function<std::size_t()> count;
  };
  std::vector<std::string> descriptors_;  // "<number> -> <target>" at the start
  std::size_t threads_;                   // of this process at the start
  std::vector<counter> counters_;
  bool checked_ = false;
};

// "<number> -> <target>" for every open descriptor of this process.
std::vector<std::string> open_descriptors();
// Threads of this process.
std::size_t thread_count();

}  // namespace lci::test
