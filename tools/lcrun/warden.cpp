#include "tools/lcrun/warden.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "tools/lcrun/members.hpp"

namespace lcrun {

namespace {

constexpr pid_t DISMISSED = 0;

// Keeps none of the launcher's descriptors: no reader shall wait for us at the end of a pipe.
void close_all_but(int kept) noexcept {
#ifdef SYS_close_range
  const auto k = static_cast<unsigned>(kept);
  if ((kept == 0 || ::syscall(SYS_close_range, 0u, k - 1, 0u) == 0) &&
      ::syscall(SYS_close_range, k + 1, ~0u, 0u) == 0)
    return;
#endif
  const long most = ::sysconf(_SC_OPEN_MAX);
  for (int fd = 0; fd < (most > 0 && most < 65536 ? most : 65536); ++fd) {
    if (fd != kept) ::close(fd);
  }
}

[[noreturn]] void stand_guard(int pipe, const std::string& socket,
                              const std::string& directory) noexcept {
  ::setsid();  // signals for the launcher's group do not reach us
  ::prctl(PR_SET_NAME, WARDEN_NAME, 0, 0, 0);
  close_all_but(pipe);
  std::vector<pid_t> groups;
  for (;;) {
    pid_t group = DISMISSED;
    const ssize_t n = ::read(pipe, &group, sizeof group);
    if (n < 0 && errno == EINTR) continue;
    if (n != static_cast<ssize_t>(sizeof group)) break;
    if (group == DISMISSED) ::_exit(0);
    groups.push_back(group);
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
  if (!groups.empty()) kill_strays(socket);
  if (!directory.empty()) remove_tree(directory);
  ::_exit(0);
}

}  // namespace

warden::warden(const std::string& socket, const std::string& directory) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  lci::base::descriptor read_end(ends[0]);
  pipe_.reset(ends[1]);
  pid_ = ::fork();
  if (pid_ == 0) {
    pipe_.reset();
    stand_guard(read_end.get(), socket, directory);
  }
  if (pid_ < 0) {
    std::perror("lcrun: cannot start the warden; processes started by ranks may survive kill -9");
    pipe_.reset();
  }
}

warden::~warden() {
  if (pid_ < 0) return;
  watch(DISMISSED);
  pipe_.reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void warden::watch(pid_t group) noexcept {
  if (!pipe_) return;
  // Smaller than PIPE_BUF, so it is written whole or not at all.
  while (::write(pipe_.get(), &group, sizeof group) < 0 && errno == EINTR) {
  }
}

void remove_tree(const std::string& directory) noexcept {
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
}

}  // namespace lcrun
