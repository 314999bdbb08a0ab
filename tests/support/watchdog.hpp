// Ends a test that hangs, after saying where it stands.
//
// A local of a test or the main thread of a child process. Threads: its own thread runs `dump` and
// aborts; pet() from any thread. Always true: without progress for `limit` the process ends by
// SIGABRT, it is never waited for in vain.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace lci::test {

class watchdog {
 public:
  // 240 s, which is below the limits of ctest, or what LCI_TEST_WATCHDOG_S says.
  static std::chrono::seconds default_limit();

  // dump: called on expiry, prints queues and counters to stderr.
  explicit watchdog(std::string what, std::function<void()> dump = {},
                    std::chrono::milliseconds limit = default_limit());
  ~watchdog();
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;
  // Something went forward: the limit starts again.
  void pet();

 private:
  void wait_for_expiry();

  std::string what_;
  std::function<void()> dump_;
  std::chrono::milliseconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;   // under mutex_
  unsigned pets_ = 0;   // under mutex_
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace lci::test
