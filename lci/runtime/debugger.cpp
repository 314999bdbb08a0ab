#include "lci/runtime/debugger.hpp"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "lci/base/env.hpp"
#include "lci/base/log.hpp"
#include "lci/boot/wait_limit.hpp"

namespace lci::runtime {
namespace {

// 0 as well where the system does not say; -1: it cannot be asked.
int tracer() noexcept {
  std::FILE* const status = std::fopen("/proc/self/status", "re");
  if (status == nullptr) return -1;
  int pid = 0;
  char line[256];
  while (std::fgets(line, sizeof line, status) != nullptr)
    if (std::sscanf(line, "TracerPid: %d", &pid) == 1) break;
  std::fclose(status);
  return pid;
}

}  // namespace

void wait_for_debugger(int rank) noexcept {
  const auto how = boot::find_debugger_wait();
  if (!how) return;
  const int me = static_cast<int>(getpid());
  base::log::warn("runtime", "%s: rank %d waits for a debugger, as by gdb -p %d",
                  boot::DEBUGGER_VARIABLE, rank, me);
  if (base::env::same_word(*how, "sigstop")) {
    raise(SIGSTOP);
    return;
  }
  while (tracer() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace lci::runtime
