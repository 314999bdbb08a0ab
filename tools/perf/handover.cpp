#include "tools/perf/handover.hpp"

#include <functional>
#include <thread>
#include <vector>

#include "tools/perf/board.hpp"
#include "tools/perf/statistics.hpp"

namespace lci_perf {

namespace {

constexpr int BLOCKS = 31, ROUND_TRIPS = 1000;

// The ball is odd in flight to the second thread, even on its way back.
void play(line& ball, bool is_first, int cpu, std::vector<double>* times) {
  if (!try_pin_to(cpu)) std::perror("lci_perf: sched_setaffinity");
  std::uint64_t next = 0;
  const auto await = [&](std::uint64_t value) {
    // edge perf.ball, reader: the number itself is all that is handed over; partner is the store.
    for (patience step; ball.value.load(std::memory_order_acquire) < value;) step();
  };
  for (int block = 0; block < BLOCKS; ++block) {
    const std::uint64_t begin = now_ns();
    for (int i = 0; i < ROUND_TRIPS; ++i, next += 2) {
      if (!is_first) await(next + 1);
      // edge perf.ball, writer
      ball.value.store(next + (is_first ? 1 : 2), std::memory_order_release);
      if (is_first) await(next + 2);
    }
    // The first block waits for the other thread to start.
    if (times != nullptr && block > 0)
      times->push_back(static_cast<double>(now_ns() - begin) / (2.0 * ROUND_TRIPS));
  }
}

}  // namespace

double handover_ns(int one_cpu, int other_cpu) {
  static line ball;
  ball.value.store(0, std::memory_order_relaxed);  // the threads start after it
  std::vector<double> times;
  std::thread first(play, std::ref(ball), true, one_cpu, &times);
  std::thread second(play, std::ref(ball), false, other_cpu, nullptr);
  first.join();
  second.join();
  return spread_of(times).median;
}

}  // namespace lci_perf
