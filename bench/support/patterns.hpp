// The two-process patterns, for libraries that can send one message, wait for one, and do the same
// in windows. bench/micro has its own versions over lci, written as a user would; rivals share
// these, so that each of them consists of only a few calls. Threads: one per process.
#pragma once

#include <cstring>

#include "bench/support/pair.hpp"

namespace bench {

constexpr int PATTERN_BLOCKS = 60;
constexpr int PATTERN_ROUNDS = 1000;
constexpr int PATTERN_WINDOW = 64;
constexpr int PATTERN_WINDOWS = 500;

// Port: send(buffer, size) and recv(buffer, size) return only when they are finished.
template <class Port>
void latency_pattern(pair& both, Port& port, const char* name, const char* who) {
  std::uint64_t out = 0;
  std::uint64_t in = 0;
  const auto round_trips = [&] {
    const std::uint64_t start = now_ns();
    for (int i = 0; i < PATTERN_ROUNDS; ++i) {
      if (both.is_first()) port.send(&out, sizeof out);
      port.recv(&in, sizeof in);
      if (!both.is_first()) port.send(&out, sizeof out);
    }
    return static_cast<double>(now_ns() - start) / (2.0 * PATTERN_ROUNDS);
  };
  round_trips();
  const result r = in_units_of_r(both, name, who, "8 B", PATTERN_BLOCKS, round_trips);
  if (both.is_first()) report(r);
}

// Port: send_window / recv_window move `count` messages of `size` bytes and return only when they
// are finished; an answer from the target ends each window.
template <class Port>
void rate_pattern(pair& both, Port& port, const char* name, const char* who) {
  char buffer[8] = {};
  char answer[8] = {};
  const auto windows = [&] {
    const std::uint64_t start = now_ns();
    for (int w = 0; w < PATTERN_WINDOWS; ++w) {
      if (both.is_first()) {
        port.send_window(buffer, sizeof buffer, PATTERN_WINDOW);
        port.recv(answer, sizeof answer);
      } else {
        port.recv_window(buffer, sizeof buffer, PATTERN_WINDOW);
        port.send(answer, sizeof answer);
      }
    }
    return static_cast<double>(now_ns() - start) / (1.0 * PATTERN_WINDOW * PATTERN_WINDOWS);
  };
  windows();
  result r = in_units_of_r(both, name, who, "8 B", PATTERN_BLOCKS / 3, windows);
  r.value = 1e3 / r.value;
  std::swap(r.low = 1e3 / r.low, r.high = 1e3 / r.high);
  r.unit = "M/s";
  if (both.is_first()) report(r);
}

template <class Port>
void bandwidth_pattern(pair& both, Port& port, const char* kind, const char* who) {
  constexpr std::size_t largest = std::size_t{64} << 20;
  constexpr std::size_t window_bytes = std::size_t{8} << 20;
  std::vector<char> buffer(largest, 'b');
  char answer[8] = {};
  for (const std::size_t size : bandwidth_sizes()) {
    const auto count = static_cast<int>(std::clamp<std::size_t>(window_bytes / size, 1, 64));
    const std::size_t bytes = size * static_cast<std::size_t>(count);
    const auto windows =
        static_cast<int>(std::clamp<std::size_t>(window_bytes * 4 / bytes, 2, 200));
    std::vector<double> speeds;
    for (int block = 0; block < 6; ++block) {
      both.meet();
      const std::uint64_t start = now_ns();
      for (int w = 0; w < windows; ++w) {
        if (both.is_first()) {
          port.send_window(buffer.data(), size, count);
          port.recv(answer, sizeof answer);
        } else {
          port.recv_window(buffer.data(), size, count);
          port.send(answer, sizeof answer);
        }
      }
      const auto ns = static_cast<double>(now_ns() - start);
      if (block > 0) speeds.push_back(static_cast<double>(bytes) * windows / ns);
    }
    const std::string what = std::string(kind) + " default " + std::to_string(size);
    const double r = both.handover_ns();
    if (both.is_first()) report({"bandwidth", who, what, median(speeds), "GB/s", r});
  }
}

}  // namespace bench
