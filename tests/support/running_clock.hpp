// A clock that stands still while its machine does.
//
// For bounds on how soon something is heard of, on machines whose processors are also somebody
// else's: a virtual machine that its host holds for three seconds hears nothing in them, and that
// is no fault of who is tested. A thread sleeps for some milliseconds at a time, on one processor
// after the other; what it oversleeps beyond PAUSE_MS does not count. It has nothing to do with the
// library, so that a call of ours that blocks does count. Threads: any may ask.
#pragma once

#include <algorithm>
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
  long ms() const noexcept { return shows(last_.load(std::memory_order_relaxed), now()); }

  // A beat: the time by the system's clock above, by this one below. One word, so that whoever asks
  // sees a pause neither twice nor not at all.
  static constexpr std::uint64_t beat_of(std::uint32_t system_ms, std::uint32_t ran_ms) noexcept {
    return std::uint64_t{system_ms} << 32 | ran_ms;
  }
  // What this clock shows at `system_ms`, when `last` was the last beat.
  static constexpr std::uint32_t shows(std::uint64_t last, std::uint32_t system_ms) noexcept {
    // A beat may come between the two that are compared.
    const auto since =
        static_cast<std::int32_t>(system_ms - static_cast<std::uint32_t>(last >> 32));
    return static_cast<std::uint32_t>(last) +
           static_cast<std::uint32_t>(std::clamp<std::int32_t>(since, 0, PAUSE_MS));
  }
  static constexpr std::uint64_t next(std::uint64_t last, std::uint32_t system_ms) noexcept {
    return beat_of(system_ms, shows(last, system_ms));
  }

 private:
  void beat();
  std::uint32_t now() const noexcept;

  std::atomic<std::uint64_t> last_{0};  // the last beat, see beat_of()
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;  // under mutex_
  std::thread thread_;    // last: starts when everything else is there
};

}  // namespace lci::test
