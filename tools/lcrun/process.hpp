// Starting the processes of a job: their environment, descriptors, groups and signals.
// Threads: single.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "lci/boot/fd.hpp"
#include "tools/lcrun/options.hpp"

namespace lcrun {

// The state of this process when it started: ranks get it back unchanged.
struct inherited_state {
  sigset_t mask;
  struct sigaction pipe_action;
  rlimit files;
};

// A copy of lcrun's environment, changed for each rank.
class environment {
 public:
  environment();
  void set(const std::string& name, const std::string& value);
  void set_all(const std::vector<std::string>& variables);  // "NAME=VALUE"
  bool has(const std::string& name) const;
  std::string get(const std::string& name) const;
  // For execve; valid until the next set().
  std::vector<char*> pointers();

 private:
  std::vector<std::string> entries_;
};

// What all ranks share.
struct job_environment {
  std::string socket;     // abstract name of our key-value server
  std::string directory;  // private directory for the file bootstrap; empty: none
  int size;               // of the job
  // For a job on several hosts, whose ranks meet over tcp; empty and 0 otherwise.
  std::string address, secret;
  int port;
  int first, local;  // which ranks are here
};

// Sets the variables that a rank's bootstrap reads. LCT_PMI_BACKEND stays as the user has set it.
void set_rank_variables(environment& env, const job_environment& job, int rank);
// Whether LCT_PMI_BACKEND, as the user has set it, can lead to the file bootstrap.
bool wants_directory(const environment& env);

struct started {
  pid_t pid;                       // also the number of its process group
  lci::base::descriptor out, err;  // the launcher's ends, non-blocking
};

struct request {
  char* const* command;    // null-terminated
  int in;                  // becomes its stdin
  const cpu_set_t* cores;  // null = all
  bool wait_for_exec;
};

// Starts a process. Throws lci::backend_error when the system has no process or pipe left. With
// `wait_for_exec`, returns the errno of a failed exec in `exec_error`; without it, the process
// itself reports it on its stderr. Either way it ends with status 127 or 126.
started start_process(const request& what, environment& env, const inherited_state& was,
                      int& exec_error);

// True if a child is about to end, although waitid() does not report it yet.
bool is_exiting(pid_t pid);

struct pipe_ends {
  lci::base::descriptor read, write;
};
pipe_ends make_pipe();

}  // namespace lcrun
