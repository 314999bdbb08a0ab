// Threads that do the same work at the same time, each on a processor of its own, until they are
// told to stop. Between two pieces of work they sleep, so that contenders can take turns.
// Called by: main of bench_threads. Threads: one caller.
#pragma once

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "tools/perf/board.hpp"

namespace bench {

// Says to a thread at work that the time is over.
class stop_sign {
 public:
  bool is_up() const noexcept { return is_up_.load(std::memory_order_relaxed); }
  void raise() noexcept { is_up_.store(true, std::memory_order_relaxed); }
  void lower() noexcept { is_up_.store(false, std::memory_order_relaxed); }

 private:
  alignas(128) std::atomic<bool> is_up_{false};
};

class team {
 public:
  // What the thread of that number does until the sign is up. Returns how many items it completed.
  using work = std::function<std::uint64_t(int thread, const stop_sign& stop)>;

  explicit team(const std::vector<int>& cpus)
      : counts_(cpus.size()), meeting_(static_cast<std::ptrdiff_t>(cpus.size()) + 1) {
    for (std::size_t i = 0; i < cpus.size(); ++i)
      threads_.emplace_back([this, i, cpu = cpus[i]] { live(i, cpu); });
  }
  team(const team&) = delete;
  team& operator=(const team&) = delete;
  ~team() {
    current_ = nullptr;
    meeting_.arrive_and_wait();
    for (std::thread& one : threads_) one.join();
  }

  int size() const { return static_cast<int>(threads_.size()); }

  // Items per second of all together.
  double rate(const work& todo, std::chrono::milliseconds time) {
    current_ = &todo;
    stop_.lower();
    meeting_.arrive_and_wait();
    const std::uint64_t begin = lci_perf::now_ns();
    std::this_thread::sleep_for(time);
    stop_.raise();
    meeting_.arrive_and_wait();
    const std::uint64_t took = lci_perf::now_ns() - begin;
    std::uint64_t all = 0;
    for (const std::uint64_t one : counts_) all += one;
    return static_cast<double>(all) * 1e9 / static_cast<double>(took);
  }

 private:
  void live(std::size_t number, int cpu) {
    if (!lci_perf::try_pin_to(cpu)) std::perror("bench_threads: sched_setaffinity");
    for (;;) {
      meeting_.arrive_and_wait();
      if (current_ == nullptr) return;
      counts_[number] = (*current_)(static_cast<int>(number), stop_);
      meeting_.arrive_and_wait();
    }
  }

  const work* current_ = nullptr;      // changes while all others wait
  std::vector<std::uint64_t> counts_;  // written once for each work
  stop_sign stop_;
  std::barrier<> meeting_;
  std::vector<std::thread> threads_;
};

}  // namespace bench
