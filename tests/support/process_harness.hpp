// Runs one function in several real processes, so that deaths, hang-ups and what they leave behind
// can be tested.
//
// A test makes a `processes` object, waits for points that its children reach, kills some, and asks
// how the others ended. Threads: the parent's test thread; each child is single-threaded at the
// start. Always true: children end with their parent, and none outlives its time limit: it says
// which points it had reached, and aborts.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/rank_job.hpp"

namespace lci::test {

struct process_board;  // shared memory of all of them

// What a child's function gets.
class child_process final : public rank_job {
 public:
  child_process(process_board* board, int rank) : board_(board), rank_(rank) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override;
  // "I have come to this point." Up to 31 characters, up to 64 points per child.
  void reach(std::string_view point);
  // Has another child reached it? Sleeping in between is the caller's choice: a test of shared
  // memory has to poll.
  bool has_reached(int rank, std::string_view point) const;
  void publish(std::string_view name, std::string_view text) override;
  // Empty while it is not there.
  std::string lookup(int rank, std::string_view name) const override;
  void barrier(std::string_view point, const std::function<void()>& meanwhile,
               const std::vector<int>& except = {}) override;

 private:
  process_board* board_;
  int rank_;
};

// How a child ended.
struct process_end {
  bool by_signal = false;
  int code = 0;  // exit status, or the signal
  bool operator==(const process_end&) const = default;
};
inline constexpr process_end ENDED_WELL{false, 0};
inline constexpr process_end KILLED{true, SIGKILL};

class processes {
 public:
  // The child's exit status is what `body` returns, or 1 if a test expectation failed in it.
  processes(int count, const std::function<int(child_process&)>& body, unsigned limit_s = 60);
  ~processes();
  processes(const processes&) = delete;
  processes& operator=(const processes&) = delete;

  int size() const noexcept { return static_cast<int>(pids_.size()); }
  // Waits until a child has reached a point; false, and a test failure, when it ended without.
  bool wait_for(int rank, std::string_view point);
  void kill(int rank, int signal = SIGKILL);
  // Until kill(rank, SIGCONT). Returns when none of its threads runs any more.
  void stop(int rank);
  // What a child published, also after its end.
  std::string lookup(int rank, std::string_view name) const;
  // Waits for the end of one child.
  process_end wait(int rank);
  // Waits for all; a test failure for each that did not end as given (all well by default).
  void expect_ends(const std::vector<process_end>& expected = {});

 private:
  process_board* board_;
  std::vector<pid_t> pids_;        // 0 once reaped
  std::vector<process_end> ends_;  // of the reaped
};

// Entries of /dev/shm.
std::vector<std::string> shared_memory_files();
// Those that were not there before and that no process has mapped or open: others on this machine
// may have some, too.
std::vector<std::string> left_shared_memory_files(const std::vector<std::string>& before);
// Names of bound abstract sockets that contain `part`.
std::vector<std::string> abstract_sockets(std::string_view part);
// Those that this process has open.
std::vector<std::string> own_abstract_sockets();

}  // namespace lci::test
