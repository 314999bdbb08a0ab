// The lines that this benchmark prints, and what ends it when a row hangs. Threads: single, beside
// the watchdog's own. Always true: each row prints one line, a value or an error; a row that takes
// longer than its limit ends the process with status 3.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace bench {

struct found {
  std::vector<double> values;
  std::string more;  // further members of the line
};

inline double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

class rows {
 public:
  rows(std::string only, int limit_s) : only_(std::move(only)), limit_(limit_s) {
    std::thread([this] { watch(); }).detach();
  }

  int failures() const { return failures_; }

  // `bar`: what the median may be at most, or, of a rate, at least; 0: none.
  template <class Measure>
  void measure(const std::string& what, const char* unit, double bar, Measure measure) {
    if (what.find(only_) == std::string::npos) return;
    begin(what);
    try {
      const found f = measure();
      end();
      print(what, unit, bar, f);
    } catch (const std::exception& e) {
      end();
      fail(what, e.what());
    }
  }

 private:
  using clock = std::chrono::steady_clock;

  void begin(const std::string& what) {
    const std::lock_guard lock(mutex_);
    now_ = what;
    until_ = clock::now() + limit_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    now_.clear();
  }
  void watch() {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const std::lock_guard lock(mutex_);
      if (now_.empty() || clock::now() < until_) continue;
      fail(now_, "did not end within its limit; the process ends");
      _exit(3);
    }
  }
  void fail(const std::string& what, const char* why) {
    ++failures_;
    std::string text;
    for (const char* c = why; *c != 0; ++c) text += *c == '"' || *c == '\\' || *c < ' ' ? '\'' : *c;
    std::printf("{\"what\": \"%s\", \"error\": \"%s\"}\n", what.c_str(), text.c_str());
    std::fflush(stdout);
  }
  static void print(const std::string& what, const char* unit, double bar, const found& f) {
    if (f.values.empty()) return;
    const auto [low, high] = std::minmax_element(f.values.begin(), f.values.end());
    const double value = median_of(f.values);
    std::printf(
        "{\"what\": \"%s\", \"unit\": \"%s\", \"value\": %.4g, \"low\": %.4g, "
        "\"high\": %.4g, \"runs\": %zu",
        what.c_str(), unit, value, *low, *high, f.values.size());
    if (bar != 0) {
      const bool is_rate = unit[0] == 'M';
      std::printf(", \"bar\": %g, \"met\": %s", bar,
                  (is_rate ? value >= bar : value <= bar) ? "true" : "false");
    }
    std::printf("%s%s}\n", f.more.empty() ? "" : ", ", f.more.c_str());
    std::fflush(stdout);
  }

  std::string only_;
  std::chrono::seconds limit_;
  int failures_ = 0;
  std::mutex mutex_;  // guards what follows
  std::string now_;
  clock::time_point until_;
};

}  // namespace bench
