// The ranks of one job, each in a process of its own, until all of them have ended. Used by kills
// and no_memory. Threads: single. Always true: whoever hangs is killed.
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/failure/job_end.hpp"
#include "tests/support/memory_leaks.hpp"

namespace lci::test {

class ranks {
 public:
  // They meet in a folder named after `program`. keep: a variable that leaves those that hang.
  ranks(const std::string& program, const char* keep)
      : keep_(keep), folder_("/tmp/lci_" + program + ".XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
  }
  ~ranks() { std::filesystem::remove_all(folder_); }
  ranks(const ranks&) = delete;
  ranks& operator=(const ranks&) = delete;

  // One more; body() runs in its process and answers its job_end.
  template <class Body>
  void begin(Body&& body) {
    std::fflush(stdout);
    all_.push_back({fork()});
    // -1 would name every process in waitpid() and kill().
    if (all_.back().pid < 0) std::abort();
    if (all_.back().pid != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const job_end end = body();
    std::fflush(stdout);
    // As at the end of a process, which these do not come to.
    _exit(static_cast<int>(has_leaked_memory() ? job_end::leak : end));
  }
  // True: all have ended. Those that have not after so long are said to hang, and killed.
  bool look(std::chrono::seconds patience) {
    bool is_over = true;
    for (one_rank& one : all_) {
      if (one.pid != 0 && waitpid(one.pid, &one.status, WNOHANG) == one.pid) one.pid = 0;
      is_over = is_over && one.pid == 0;
    }
    if (!is_over && hung_ == 0 && age() > patience) give_up();
    return is_over;
  }
  void wait(std::chrono::seconds patience) {
    while (!look(patience)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // Not before that one has ended, if it is to be late. A zombie at most: it is reaped by look().
  void kill(int rank, bool is_late) const {
    const pid_t pid = at(rank).pid;
    if (pid == 0) return;
    if (is_late) waitid(P_PID, static_cast<id_t>(pid), nullptr, WEXITED | WNOWAIT);
    ::kill(pid, SIGKILL);
  }

  const std::string& folder() const { return folder_; }
  int hung() const { return hung_; }
  std::chrono::steady_clock::time_point begun() const { return begun_; }
  std::chrono::steady_clock::duration age() const {
    return std::chrono::steady_clock::now() - begun_;
  }
  // As waitpid() says, once all have ended.
  int status(int rank) const { return at(rank).status; }
  bool was_killed(int rank) const {
    return WIFSIGNALED(status(rank)) && WTERMSIG(status(rank)) == SIGKILL;
  }

 private:
  struct one_rank {
    pid_t pid;  // 0 once reaped
    int status = 0;
  };
  const one_rank& at(int rank) const { return all_[static_cast<std::size_t>(rank)]; }
  void give_up() {
    for (std::size_t rank = 0; rank < all_.size(); ++rank) {
      if (all_[rank].pid == 0) continue;
      std::printf("rank %zu hangs\n", rank);
      std::fflush(stdout);
      if (std::getenv(keep_) != nullptr) pause();
      ::kill(all_[rank].pid, SIGKILL);
      ++hung_;
    }
  }

  const char* const keep_;
  std::string folder_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::vector<one_rank> all_;  // by rank
  int hung_ = 0;
};

}  // namespace lci::test
