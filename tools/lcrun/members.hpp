// The processes of a rank, as /proc shows them: the one that we have started, and what that has
// started in turn, such as the program that a shell script runs.
// Threads: single.
#pragma once

#include <sys/types.h>

#include <iosfwd>
#include <string>
#include <vector>

namespace lcrun {

struct member {
  pid_t pid;
  char state;  // as ps has it: R, S, D, T (stopped), t (held by a debugger), Z
  bool is_stopped() const noexcept { return state == 'T' || state == 't'; }
};

// What /proc/<pid>/stat holds behind the name; empty where the process has ended since it was
// opened.
std::string stat_behind_name(std::istream& stat);
// Of the process group, in ascending order. Looks at every process of the machine.
std::vector<member> members_of(pid_t group);
// Whether it has a handler for that signal.
bool handles(pid_t pid, int signal);

}  // namespace lcrun
