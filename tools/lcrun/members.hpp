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

// Whether the process has a handler for that signal, or ignores it.
bool handles(pid_t pid, int signal);
bool ignores(pid_t pid, int signal);

// Kills what the ranks of a job have started in groups of their own, as `timeout` and `setsid` do:
// the processes of this user whose environment began with LCI_LCRUN_SOCKET=socket. Not those that
// were started without it, nor wardens, which end what is left of an lcrun that was a rank's.
void kill_strays(const std::string& socket) noexcept;

}  // namespace lcrun
