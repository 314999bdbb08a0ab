// Runs one function per rank in forked processes and collects how each ended.
// Threads: the caller must have no other threads. Always true: a rank that does not end within the
// limit is killed and counts as failed; forked ranks never return into the test runner.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace lci::boot {

struct rank_result {
  int status = -1;   // exit status, or 128 + signal
  std::string text;  // what the exception said, or what the body returned
};

// `body(rank)` runs in a process of its own; what it returns, or the text of what it throws, comes
// back. Exit status: 0, or 1 after an exception.
inline std::vector<rank_result> run_ranks(int count, const std::function<std::string(int)>& body,
                                          unsigned limit_s = 60) {
  std::vector<pid_t> pids;
  std::vector<int> pipes;
  for (int r = 0; r < count; ++r) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      for (const int fd : pipes) ::close(fd);
      ::alarm(limit_s);  // SIGALRM ends a rank that hangs
      int status = 0;
      std::string text;
      try {
        text = body(r);
      } catch (const std::exception& error) {
        text = error.what();
        status = 1;
      }
      if (::write(ends[1], text.data(), text.size()) < 0) status = 2;
      ::_exit(status);
    }
    ::close(ends[1]);
    pids.push_back(pid);
    pipes.push_back(ends[0]);
  }
  std::vector<rank_result> results(static_cast<std::size_t>(count));
  for (std::size_t r = 0; r < results.size(); ++r) {
    char bytes[4096];
    for (ssize_t n; (n = ::read(pipes[r], bytes, sizeof bytes)) > 0;)
      results[r].text.append(bytes, static_cast<std::size_t>(n));
    ::close(pipes[r]);
    int status = 0;
    ::waitpid(pids[r], &status, 0);
    results[r].status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return results;
}

}  // namespace lci::boot
