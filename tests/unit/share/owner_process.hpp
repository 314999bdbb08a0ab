// A second process for the tests of shared buffers: it exports, the test imports. Threads: one in
// each. Always true: the child ends with its owner object, by a signal if by nothing else; what it
// says and hears are whole strings over a socket.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lci/base/descriptor.hpp"
#include "lci/buffer.hpp"
#include "lci/share/page.hpp"

namespace lci::share {

constexpr std::size_t PAGE = 4096;

// One end of the talk.
class talk {
 public:
  explicit talk(int fd) : fd_(fd) {}
  int number() const { return fd_; }
  void say(const std::string& text) const {
    const std::size_t size = text.size();
    EXPECT_EQ(send(fd_, &size, sizeof(size), MSG_NOSIGNAL), static_cast<ssize_t>(sizeof(size)));
    EXPECT_EQ(send(fd_, text.data(), size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
  }
  // Empty: the other end is gone.
  std::string hear() const {
    std::size_t size = 0;
    if (recv(fd_, &size, sizeof(size), MSG_WAITALL) != static_cast<ssize_t>(sizeof(size)))
      return "";
    std::string text(size, '\0');
    if (recv(fd_, text.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size)) return "";
    return text;
  }

 private:
  int fd_;
};

class owner_process {
 public:
  explicit owner_process(const std::function<void(talk)>& body) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    base::descriptor theirs(ends[0]);
    mine_.reset(ends[1]);
    std::fflush(stdout);
    child_ = fork();
    if (child_ != 0) return;
    mine_.reset();
    body(talk(theirs.get()));
    std::fflush(stdout);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  ~owner_process() {
    mine_.reset();  // a child that listens ends now
    if (child_ > 0) {
      EXPECT_EQ(end(), 0);
    }
  }
  owner_process(const owner_process&) = delete;
  owner_process& operator=(const owner_process&) = delete;

  talk with() const { return talk(mine_.get()); }
  void kill() {
    ::kill(child_, SIGKILL);
    EXPECT_NE(end(), 0);
  }
  // Killed and not waited for.
  void leave_zombie() {
    ::kill(child_, SIGKILL);
    siginfo_t about{};
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(child_), &about, WEXITED | WNOWAIT), 0);
  }
  pid_t pid() const { return child_; }

 private:
  int end() {
    int status = 0;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    child_ = -1;
    return status;
  }

  base::descriptor mine_;
  pid_t child_ = -1;
};

// While it exists this process can open no more than `left` descriptors. For children: their limit
// stays lower.
class full_descriptors {
 public:
  explicit full_descriptors(std::size_t left) {
    rlimit limit{};
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 256;  // so that it is soon reached
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (;;) {
      base::descriptor one(dup(STDERR_FILENO));
      if (!one) break;
      all_.push_back(std::move(one));
    }
    EXPECT_EQ(errno, EMFILE);
    EXPECT_GE(all_.size(), left);
    for (; left != 0; --left) all_.pop_back();
  }

 private:
  std::vector<base::descriptor> all_;
};

// Of this process, as the kernel lists them.
inline std::size_t count_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("lci-buffer") != line.npos;
  return count;
}

// The fault with which the call ends; a failure of the test when it does not.
template <class Call>
buffer_fault fault_of(Call&& call) {
  try {
    call();
  } catch (const buffer_error& error) {
    EXPECT_STRNE(error.what(), "");
    return error.fault();
  }
  ADD_FAILURE() << "nothing was thrown";
  return buffer_fault::no_room;
}

inline std::ostream& operator<<(std::ostream& out, verdict found) {
  return out << static_cast<int>(found);
}

}  // namespace lci::share

namespace lci {

inline std::ostream& operator<<(std::ostream& out, buffer_fault fault) {
  return out << get_buffer_fault_str(fault);
}

}  // namespace lci
