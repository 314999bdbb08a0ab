// A clock that stands still while its machine does.
//
// For bounds on how soon something is heard of, on machines whose processors are also somebody
// else's: a virtual machine that its host holds for three seconds hears nothing in them, and that
// is no fault of who is tested. A thread sleeps for some milliseconds at a time, on one processor
// after the other; what it oversleeps beyond PAUSE_MS does not count. It has nothing to do with the
// library, so that a call of ours that blocks does count. Threads: any may ask.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace lci::test {

class running_clock {
 public:
  static constexpr std::uint32_t BEAT_MS = 10;
  // Shorter ones are taken for what they mostly are: a processor with much to do.
  static constexpr std::uint32_t PAUSE_MS = 100;

  running_clock();
  ~running_clock();
  running_clock(const running_clock&) = delete;
  running_clock& operator=(const running_clock&) = delete;
  // Milliseconds in which this machine ran, since the clock was made. Of 49 days at most.
  long ms() const noexcept;

 private:
  void beat();
  std::uint32_t now() const noexcept;

  // The last beat: the time by the system's clock above, by this one below. One word, so that
  // whoever asks sees a pause neither twice nor not at all.
  std::atomic<std::uint64_t> last_{0};
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;  // under mutex_
  std::thread thread_;    // last: starts when everything else is there
};

}  // namespace lci::test
