// The processes of a rank, as /proc shows them: the one that lcrun started, and those that it has
// started in turn, such as the program that a shell script runs.
// Threads: single.
#pragma once

#include <sys/types.h>

#include <iosfwd>
#include <string>
#include <unordered_map>
#include <vector>

namespace lcrun {

struct member {
  pid_t pid;
  char state;  // as in ps: R, S, D, T (stopped), t (held by a debugger), Z
  bool is_stopped() const noexcept { return state == 'T' || state == 't'; }
};

// What follows the name in /proc/<pid>/stat; empty if the process has ended since the file was
// opened.
std::string stat_behind_name(std::istream& stat);
// The processes of this machine at one moment, by process group.
class process_groups {
 public:
  // Reads a file of /proc for each process: one scan serves all ranks.
  process_groups();
  // The processes of a group, in ascending order.
  const std::vector<member>& of(pid_t group) const noexcept;

 private:
  std::unordered_map<pid_t, std::vector<member>> groups_;
};

// Whether the process has a handler for that signal.
bool handles(pid_t pid, int signal);

}  // namespace lcrun
