// One library that is measured: its processes, which wait for orders from start to end, so that
// libraries can be measured in turn within milliseconds.
// Called by: the campaign. Threads: single.
// Always true: its processes end with the object, or with this program.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/perf/board.hpp"

namespace lci_perf {

// How the processes of a library are started.
struct contender {
  std::string name;                    // "lci", "ucx", ...
  std::vector<std::string> launcher;   // before `-n N`; empty: this program starts each process
  std::vector<std::string> command;    // the program and its arguments
  std::vector<std::string> variables;  // "NAME=VALUE", for its processes
  std::string why_not;                 // not empty: it cannot be started, and why
};

// What all libraries of a comparison are asked for.
struct shape {
  int pairs = 1;
  bool is_threads = false;
  bool is_shared = false;
  bool is_gpu = false;
  std::uint64_t largest = 8;
  std::vector<int> cpus;  // of each seat; empty: where the kernel puts them
};

// The last line that has a letter: launchers frame what they say with lines of dashes.
std::string last_sentence(const std::string& text);

class contestant {
 public:
  // Starts the processes and waits until all are ready. Throws std::runtime_error with the reason
  // if one fails. `idle` is called about every tenth of a second while it waits.
  contestant(const contender& who, const shape& all, std::function<void()> idle);
  ~contestant();
  contestant(const contestant&) = delete;
  contestant& operator=(const contestant&) = delete;

  const std::string& name() const { return name_; }
  std::string version() const { return board_->version; }
  bool has(operation op) const {
    return (board_->operations.load(std::memory_order_relaxed) & bit(op)) != 0;
  }
  // The results of all seats: 2 * pair, and 2 * pair + 1 its target. Throws if a process fails.
  std::vector<result> give(const order& o);

 private:
  void start(const contender& who, int processes);
  int spawn(const std::vector<std::string>& line, const contender& who, int rank);
  void await();
  std::uint64_t arrived() const;
  void end();
  // Why a process that ended did so: its last line, or its status.
  std::string last_words(int status) const;

  std::string name_;
  std::function<void()> idle_;
  board* board_ = nullptr;
  int fd_ = -1;      // of the board; processes open it through /proc
  int output_ = -1;  // what its processes print
  std::vector<int> children_;
  std::uint32_t orders_ = 0;
};

}  // namespace lci_perf
