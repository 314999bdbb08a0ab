#include "lci/base/unshared.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

namespace lci::base {
namespace {

// What a child answers, 0: as it should be.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool is_nothing(int fd) {
  struct stat of_fd {
  }, of_null{};
  return fstat(fd, &of_fd) == 0 && stat("/dev/null", &of_null) == 0 &&
         of_fd.st_rdev == of_null.st_rdev && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
}

std::size_t open_descriptors() {
  std::size_t n = 0;
  for (int fd = 0; fd < 1024; ++fd) n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

struct two_ends {
  two_ends() { EXPECT_EQ(pipe2(fd, O_CLOEXEC), 0); }
  ~two_ends() {
    for (const int each : fd)
      if (each >= 0) close(each);
  }
  int fd[2] = {-1, -1};
};

}  // namespace

TEST(unshared, fork__the_child_has_nothing_at_that_number_and_no_descriptor_more) {
  two_ends first, second;
  const unshared one(first.fd[1]), other(second.fd[1]);
  const std::size_t before = open_descriptors();
  EXPECT_EQ(in_child([&] {
              if (!is_nothing(first.fd[1]) || !is_nothing(second.fd[1])) return 1;
              if (is_nothing(first.fd[0]) || is_nothing(second.fd[0])) return 2;
              if (open_descriptors() != before) return 3;
              // And a child of the child is no different.
              return in_child([&] { return is_nothing(first.fd[1]) ? 0 : 4; });
            }),
            0);
  EXPECT_FALSE(is_nothing(first.fd[1])) << "the parent keeps it";
}

// The end is heard although the child lives on.
TEST(unshared, fork__a_child_does_not_keep_it_open) {
  two_ends watched, alive;
  unshared mark(watched.fd[1]);
  const pid_t child = fork();
  if (child == 0) {
    close(alive.fd[1]);
    char byte;
    _exit(read(alive.fd[0], &byte, 1) == 0 ? 0 : 1);
  }
  mark.reset();
  close(std::exchange(watched.fd[1], -1));
  pollfd end{watched.fd[0], POLLIN, 0};
  EXPECT_EQ(poll(&end, 1, 20000), 1);
  close(std::exchange(alive.fd[1], -1));
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(unshared, moved_or_reset__only_what_is_marked_is_given_up) {
  two_ends first, second, third;
  unshared from(first.fd[1]);
  unshared to(std::move(from));
  unshared again(second.fd[1]);
  again.reset(third.fd[1]);
  unshared gone(second.fd[0]);
  gone = unshared();
  EXPECT_EQ(in_child([&] {
              if (!is_nothing(first.fd[1]) || !is_nothing(third.fd[1])) return 1;
              return is_nothing(second.fd[1]) || is_nothing(second.fd[0]) ? 2 : 0;
            }),
            0);
  to = std::move(again);
  EXPECT_EQ(in_child([&] { return is_nothing(first.fd[1]) || !is_nothing(third.fd[1]); }), 0);
}

// There may be no descriptor left to give it up with.
TEST(unshared, fork__of_a_process_that_has_no_more_descriptors) {
  two_ends first, second;
  const unshared one(first.fd[1]), other(second.fd[1]);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(in_child([&] { return 0; }), 0);
  const rlimit none{static_cast<rlim_t>(first.fd[0]), before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  std::vector<int> taken;
  for (int fd; (fd = dup(STDERR_FILENO)) >= 0;) taken.push_back(fd);
  const int answer =
      in_child([&] { return fcntl(first.fd[1], F_GETFD) < 0 || is_nothing(first.fd[1]) ? 0 : 1; });
  setrlimit(RLIMIT_NOFILE, &before);
  for (const int each : taken) close(each);
  EXPECT_EQ(answer, 0);
}

// Beyond the table, and none.
TEST(unshared, of_what_cannot_be_marked__does_nothing) {
  const unshared none, no_descriptor(-1), far(unshared::MOST), farther(1 << 30);
  EXPECT_EQ(in_child([] { return 0; }), 0);
}

}  // namespace lci::base
