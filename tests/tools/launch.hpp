// A running lcrun: its output, its end, and what is left of its processes.
// Threads: single. Always true: a launcher that does not end within LIMIT is killed and the test
// fails; a launch that goes out of scope is killed.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lci/boot/fd.hpp"
#include "tests/support/scoped_env.hpp"

namespace lcrun_tests {

using clock_type = std::chrono::steady_clock;

class launch {
 public:
  static constexpr std::chrono::seconds LIMIT{60};  // from the start

  explicit launch(const std::vector<std::string>& args, const std::string& input = {},
                  const std::string& program = LCI_LCRUN) {
    int out[2], err[2], in[2];
    if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0 || ::pipe2(in, O_CLOEXEC) != 0)
      std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      ::dup2(err[1], 2);
      ::setpgid(0, 0);
      std::vector<char*> argv{const_cast<char*>("lcrun")};
      for (const std::string& a : args) argv.push_back(const_cast<char*>(a.c_str()));
      argv.push_back(nullptr);
      ::execv(program.c_str(), argv.data());
      ::_exit(99);
    }
    for (const int fd : {out[1], err[1], in[0]}) ::close(fd);
    out_.reset(out[0]);
    err_.reset(err[0]);
    if (!input.empty() && ::write(in[1], input.data(), input.size()) < 0) std::abort();
    ::close(in[1]);
  }
  ~launch() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }

  // Reads until stdout holds `text`; false when it ends or time is up before.
  bool wait_for(const std::string& text, std::size_t times = 1) {
    while (count(stdout_, text) < times) {
      if (!read_some()) return false;
    }
    return true;
  }
  // The same of stderr, from the given byte on.
  bool wait_for_error(const std::string& text, std::size_t from = 0) {
    while (stderr_.find(text, from) == std::string::npos) {
      if (!read_some()) return false;
    }
    return true;
  }
  // Until both streams end; then the status: 128 + signal if lcrun itself was killed.
  int finish() {
    while (read_some()) {
    }
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& out() const { return stdout_; }
  const std::string& err() const { return stderr_; }

  static std::size_t count(const std::string& in, const std::string& text) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = in.find(text, at)) != std::string::npos; at += text.size()) ++n;
    return n;
  }

 private:
  bool read_some() {
    if (clock_type::now() > limit_) {
      ADD_FAILURE() << "lcrun did not end; so far:\n" << stdout_ << stderr_;
      ::kill(pid_, SIGKILL);
      return false;
    }
    pollfd set[2] = {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};
    ::poll(set, 2, 100);
    bool open = false;
    for (auto [fd, text] : {std::pair(&out_, &stdout_), std::pair(&err_, &stderr_)}) {
      if (!*fd) continue;
      open = true;
      if (set[fd == &err_].revents == 0) continue;
      char bytes[64 * 1024];
      const ssize_t n = ::read(fd->get(), bytes, sizeof bytes);
      if (n > 0)
        text->append(bytes, static_cast<std::size_t>(n));
      else
        fd->reset();
    }
    return open;
  }

  pid_t pid_ = -1;
  lci::base::descriptor out_, err_;
  std::string stdout_, stderr_;
  const clock_type::time_point limit_ = clock_type::now() + LIMIT;
};

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Alive and not a zombie.
inline bool is_running(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(in, text)) return false;
  const std::size_t end = text.rfind(')');
  return end != std::string::npos && end + 2 < text.size() && text[end + 2] != 'Z';
}

// Waits until none of the processes runs any more; false after ten seconds.
inline bool all_gone(const std::vector<pid_t>& pids) {
  for (int i = 0; i < 1000; ++i) {
    bool any = false;
    for (const pid_t pid : pids) any = any || is_running(pid);
    if (!any) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

inline std::vector<pid_t> pids_in(const std::string& text) {
  std::vector<pid_t> pids;
  std::istringstream in(text);
  for (long pid; in >> pid;) pids.push_back(static_cast<pid_t>(pid));
  return pids;
}

// The same of each line that begins with one.
inline std::vector<pid_t> pids_in_lines(const std::string& text) {
  std::vector<pid_t> pids;
  for (const std::string& line : lines_of(text))
    for (const pid_t pid : pids_in(line)) pids.push_back(pid);
  return pids;
}

inline const std::string PROBE = LCI_BOOT_PROBE;

// Variables that would change what lcrun or a bootstrap does are gone.
class lcrun_test : public testing::Test {
 protected:
  lcrun_test() {
    for (const char* name :
         {"LCT_PMI_BACKEND", "LCI_LCRUN_BACKEND", "LCI_LCRUN_HOSTS_BACKEND", "LCT_PMI_FILE_DIR",
          "LCT_PMI_FILE_NRANKS", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
      vars_.unset(name);
  }
  lci::test::scoped_env vars_;
};

}  // namespace lcrun_tests
