// Loaded before the C library: a process takes its time between two signals that end others, as one
// does that has lost its core for a moment. For tests of what happens in that moment.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" __attribute__((visibility("default"))) int kill(pid_t pid, int signal) noexcept {
  const long result = ::syscall(SYS_kill, pid, signal);
  if (signal == SIGTERM || signal == SIGKILL) ::usleep(50'000);
  return static_cast<int>(result);
}
