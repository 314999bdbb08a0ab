// A context of performance counters: what it holds and how it writes itself out.
// Callers: the functions of lct/counters.h. Threads: add() any, without a lock; all other functions
// take the context's lock. Always true: each thread adds to a line of its own, as in base/counters;
// a counter stays at its address until its context is freed.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lci/base/platform.hpp"
#include "lci/base/thread_id.hpp"
#include "lct/counters.h"

namespace lct {

struct totals {
  std::int64_t count = 0;
  std::int64_t sum = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t greatest = std::numeric_limits<std::int64_t>::min();
};

// One counter.
class tally {
 public:
  tally(std::string name, LCT_pcounter_type_t type) : name_(std::move(name)), type_(type) {}
  const std::string& name() const noexcept { return name_; }
  LCT_pcounter_type_t type() const noexcept { return type_; }

  void add(std::int64_t value) noexcept;
  totals sum() const noexcept;

 private:
  // Written by one thread alone: relaxed, statistics only.
  struct alignas(lci::base::CACHE_LINE) line {
    std::atomic<std::int64_t> count{0};
    std::atomic<std::int64_t> sum{0};
    std::atomic<std::int64_t> least{std::numeric_limits<std::int64_t>::max()};
    std::atomic<std::int64_t> greatest{std::numeric_limits<std::int64_t>::min()};
  };
  const std::string name_;
  const LCT_pcounter_type_t type_;
  std::array<line, lci::base::MAX_THREADS + 1> lines_{};
  std::mutex crowd_;  // for threads beyond the limit, which share the last line
};

// The settings from the environment variables.
struct counter_options {
  std::string outfile;           // empty: not written
  std::int64_t interval_us = 0;  // 0: no samples
  bool writes_samples = false;
  bool writes_changes_only = false;
};
// Throws argument_error.
counter_options read_counter_options();

class counter_context {
 public:
  counter_context(std::string name, counter_options options);
  ~counter_context();  // writes itself out, if a variable asks for it
  counter_context(const counter_context&) = delete;
  counter_context& operator=(const counter_context&) = delete;

  // Number and type of the counter of that name. Throws argument_error for another type.
  LCT_pcounter_handle_t find_or_make(const std::string& name, LCT_pcounter_type_t type);
  // A sample of the program's own; those to the file go on as if there was none.
  void record();
  void dump(std::FILE* out);
  // Writes to the file that a variable names, if there is one and it was not written yet.
  void dump_at_end() noexcept;

 private:
  struct sample {
    LCT_time_t time;
    std::int64_t growth;
  };
  struct entry {
    int number;
    std::unique_ptr<tally> counter;
    std::int64_t recorded = 0;  // value of the sum at the last sample
    std::int64_t written = 0;   // the same at the last sample that went to the file
    std::vector<sample> samples;
  };
  void sample_all();
  void write_locked(std::FILE* out, const entry& one) const;
  void write_sample_locked(std::FILE* out);
  void write_to_file(bool is_sample);

  const std::string name_;
  const counter_options options_;
  std::mutex lock_;
  std::vector<entry> entries_;
  bool is_written_ = false;
  bool ends_ = false;
  std::condition_variable end_;
  std::thread sampler_;  // only if a variable asks for it
};

// The counter of that number, or null.
tally* find_tally(int number) noexcept;

}  // namespace lct
