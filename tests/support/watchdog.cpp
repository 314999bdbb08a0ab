#include "tests/support/watchdog.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace lci::test {

std::chrono::seconds watchdog::default_limit() {
  const char* const given = std::getenv("LCI_TEST_WATCHDOG_S");
  return std::chrono::seconds(given != nullptr ? std::atol(given) : 240);
}

watchdog::watchdog(std::string what, std::function<void()> dump, std::chrono::milliseconds limit)
    : what_(std::move(what)),
      dump_(std::move(dump)),
      limit_(limit),
      thread_([this] { wait_for_expiry(); }) {}

watchdog::~watchdog() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void watchdog::pet() {
  {
    std::lock_guard lock(mutex_);
    ++pets_;
  }
  changed_.notify_all();
}

void watchdog::wait_for_expiry() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const unsigned seen = pets_;
    const auto deadline = std::chrono::steady_clock::now() + limit_;
    if (changed_.wait_until(lock, deadline, [&] { return stop_ || pets_ != seen; })) continue;
    std::fprintf(stderr, "watchdog: %s did not move for %lld ms\n", what_.c_str(),
                 static_cast<long long>(limit_.count()));
    if (dump_) dump_();
    std::fflush(nullptr);
    // A provider of libfabric (psm3) catches the signal, prints and calls exit(), which may wait
    // for ever.
    std::signal(SIGABRT, SIG_DFL);
    std::abort();
  }
}

}  // namespace lci::test
