#include "tools/lcrun/process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string_view>

#include "lci/base/env.hpp"
#include "lci/errors.hpp"
#include "tools/lcrun/members.hpp"

namespace lcrun {

namespace {

constexpr const char* BACKEND = "LCT_PMI_BACKEND";
// The list that lcrun has put there, by which lci tells it from a user's.
constexpr const char* BACKEND_BY_US = "LCI_LCRUN_BACKEND";
// Set to the list where that is of --hosts: to lci such a list is a user's.
constexpr const char* BACKEND_OF_HOSTS = "LCI_LCRUN_HOSTS_BACKEND";
// Words that every implementation of the interface knows: lcrun also starts programs built with
// another one.
constexpr const char* KNOWN_TO_ALL = "file,local";

bool list_holds(std::string_view list, std::string_view word) {
  bool found = false;
  lci::base::env::for_each_entry(list, ",; ", [&](std::string_view entry) {
    found = found || lci::base::env::same_word(entry, word);
  });
  return found;
}

// Empty: the user has set nothing, although an lcrun that we run under may have.
std::string users_backend(const environment& env) {
  const std::string list = env.get(BACKEND);
  const bool is_ours = list == env.get(BACKEND_BY_US) || list == env.get(BACKEND_OF_HOSTS);
  return is_ours ? std::string() : list;
}

// Runs between fork and exec: only calls that are safe there.
[[noreturn]] void become(const request& what, char* const* envp, int out, int err, int report,
                         pid_t parent, const inherited_state& was) noexcept {
  char* const* const command = what.command;
  ::setpgid(0, 0);  // one group with all that it starts, which can be killed as a whole
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != parent) ::_exit(127);  // the parent died before the line above
  ::dup2(what.in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (what.cores != nullptr) ::sched_setaffinity(0, sizeof *what.cores, what.cores);
  ::setrlimit(RLIMIT_NOFILE, &was.files);
  ::sigaction(SIGPIPE, &was.pipe_action, nullptr);
  ::sigprocmask(SIG_SETMASK, &was.mask, nullptr);
  ::execvpe(command[0], command, envp);
  const int why = errno;
  if (report < 0 || ::write(report, &why, sizeof why) < 0)
    ::dprintf(STDERR_FILENO, "lcrun: cannot run %s: %s\n", command[0], ::strerror(why));
  ::_exit(why == ENOENT ? 127 : 126);
}

}  // namespace

pipe_ends make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw lci::backend_error("pipe2 failed: " + lci::boot::errno_text(errno));
  return pipe_ends{lci::base::descriptor(ends[0]), lci::base::descriptor(ends[1])};
}

environment::environment() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    entries_.emplace_back(*entry);
}

void environment::set(const std::string& name, const std::string& value) {
  const std::string start = name + "=";
  for (std::string& entry : entries_) {
    if (!entry.starts_with(start)) continue;
    entry = start + value;
    return;
  }
  entries_.push_back(start + value);
}

void environment::set_all(const std::vector<std::string>& variables) {
  for (const std::string& v : variables) set(v.substr(0, v.find('=')), v.substr(v.find('=') + 1));
}

bool environment::has(const std::string& name) const { return !get(name).empty(); }

std::string environment::get(const std::string& name) const {
  for (const std::string& entry : entries_) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return {};
}

std::vector<char*> environment::pointers() {
  std::vector<char*> out;
  for (std::string& entry : entries_) out.push_back(entry.data());
  out.push_back(nullptr);
  return out;
}

void set_rank_variables(environment& env, const job_environment& job, int rank) {
  const bool is_by_user = !users_backend(env).empty() || !job.address.empty();
  const std::string rank_text = std::to_string(rank), size_text = std::to_string(job.size);
  const std::string local_rank_text = std::to_string(rank - job.first);
  const std::string local_size_text = std::to_string(job.local);
  env.set("LCI_LCRUN_SOCKET", job.socket);
  env.set("LCI_LCRUN_RANK", rank_text);
  env.set("LCI_LCRUN_SIZE", size_text);
  env.set("LCI_LCRUN_LOCAL_RANK", local_rank_text);
  env.set("LCI_LCRUN_LOCAL_SIZE", local_size_text);
  // Programs recognise a job by this variable, whatever bootstrap they use in the end.
  env.set("LCT_PMI_FILE_NRANKS", size_text);
  env.set("LCT_PMI_FILE_RANK", rank_text);
  if (!job.directory.empty()) env.set("LCT_PMI_FILE_DIR", job.directory);
  if (!job.address.empty()) {
    env.set(BACKEND, "tcp");
    env.set("LCT_MASTER_ADDR", job.address);
    env.set("LCT_MASTER_PORT", std::to_string(job.port));
    env.set("LCT_PMI_TCP_KEY", job.secret);
    env.set("LCT_PMI_TCP_KEY_FILE", "");  // a user's is not for this job, and only one may be set
  }
  env.set(BACKEND_BY_US, "");
  env.set(BACKEND_OF_HOSTS, job.address.empty() ? "" : env.get(BACKEND));
  if (!is_by_user) {
    env.set(BACKEND, KNOWN_TO_ALL);
    env.set(BACKEND_BY_US, KNOWN_TO_ALL);
  }
  if (!list_holds(env.get(BACKEND), "tcp")) return;
  // Only if tcp is in the list: other programs would take these for a torchrun job.
  env.set("RANK", rank_text);
  env.set("WORLD_SIZE", size_text);
  env.set("LOCAL_RANK", local_rank_text);
  env.set("LOCAL_WORLD_SIZE", local_size_text);
}

bool wants_directory(const environment& env) {
  const std::string list = users_backend(env);
  return list_holds(list, "file") && !list_holds(list, "lcrun");
}

started start_process(const request& what, environment& env, const inherited_state& was,
                      int& exec_error) {
  pipe_ends out = make_pipe(), err = make_pipe(), report;
  if (what.wait_for_exec) report = make_pipe();
  const std::vector<char*> envp = env.pointers();
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    become(what, envp.data(), out.write.get(), err.write.get(), report.write.get(), parent, was);
  }
  if (pid < 0) throw lci::backend_error("fork failed: " + lci::boot::errno_text(errno));
  ::setpgid(pid, pid);  // as in the child, whichever comes first
  exec_error = 0;
  if (what.wait_for_exec) {
    report.write.reset();
    // A successful exec closes the other end.
    while (::read(report.read.get(), &exec_error, sizeof exec_error) < 0 && errno == EINTR) {
    }
  }
  ::fcntl(out.read.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(err.read.get(), F_SETFL, O_NONBLOCK);
  return started{pid, std::move(out.read), std::move(err.read)};
}

// The kernel marks a process before it closes its descriptors, and reports its end only after that,
// and after the end of its last thread: others may have noticed the end long before.
bool is_exiting(pid_t pid) {
  // In the seventh field after the name, proc_pid_stat(5); the bit is in the kernel's
  // include/linux/sched.h.
  constexpr unsigned PF_EXITING = 0x4;
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  unsigned flags = 0;
  return std::sscanf(stat_behind_name(in).c_str(), " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
         (flags & PF_EXITING) != 0;
}

}  // namespace lcrun
