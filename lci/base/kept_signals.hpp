// Signals belong to the program. Libraries that are loaded at run time install handlers: UCX for
// faults, PSM, which libfabric loads, also for SIGINT and SIGTERM. An object of this class restores
// at its end what the program had.
#pragma once

#include <signal.h>

#include <array>
#include <cstddef>

namespace lci::base {

// Threads: a handler that another thread installs meanwhile is lost.
class kept_signals {
 public:
  kept_signals() noexcept {
    for (std::size_t i = 0; i < COUNT; ++i) sigaction(kept()[i], nullptr, &before_[i]);
  }
  ~kept_signals() {
    for (std::size_t i = 0; i < COUNT; ++i) sigaction(kept()[i], &before_[i], nullptr);
  }
  kept_signals(const kept_signals&) = delete;
  kept_signals& operator=(const kept_signals&) = delete;

 private:
  static constexpr std::size_t COUNT = 10;
  static constexpr std::array<int, COUNT> kept() noexcept {
    return {SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGTERM};
  }
  std::array<struct sigaction, COUNT> before_{};
};

}  // namespace lci::base
