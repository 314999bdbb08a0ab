#include "lct/counter_context.hpp"

#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstring>
#include <utility>

#include "lci/base/env.hpp"
#include "lci/base/log.hpp"
#include "lci/data/stable_array.hpp"
#include "lci/errors.hpp"

namespace lct {

namespace {

namespace env = lci::base::env;

// All counters of the process by number. Numbers are never reused, so that a handle of a freed
// context finds nothing.
struct counter_table {
  std::mutex lock;
  int next = 1;  // 0 is the handle that counts nothing
  lci::data::stable_array<std::atomic<tally*>> places;
};

counter_table& table() {
  static auto& made = *new counter_table;  // outlives static objects that count
  return made;
}

int list(tally* counter) {
  counter_table& all = table();
  const std::lock_guard guard(all.lock);
  std::atomic<tally*>& place = all.places.grow_to(static_cast<std::uint32_t>(all.next));
  // edge counters.list: the counter is complete before its address can be read.
  place.store(counter, std::memory_order_release);
  return all.next++;
}

void unlist(int number) noexcept {
  auto* const place = table().places.find(static_cast<std::uint32_t>(number));
  if (place != nullptr) place->store(nullptr, std::memory_order_relaxed);
}

bool is_set(const char* variable) { return env::find(variable).has_value(); }

std::string with_rank(const std::string& path) {
  std::string out;
  for (const char c : path)
    if (c == '%')
      out += std::to_string(lci::base::log::rank());
    else
      out += c;
  return out;
}

void raise(std::atomic<std::int64_t>& to, std::int64_t by) noexcept {
  to.store(to.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace

tally* find_tally(int number) noexcept {
  if (number <= 0) return nullptr;
  auto* const place = table().places.find(static_cast<std::uint32_t>(number));
  // edge counters.list, reader.
  return place == nullptr ? nullptr : place->load(std::memory_order_acquire);
}

void tally::add(std::int64_t value) noexcept {
  const std::uint32_t id = lci::base::thread_id();
  line& mine = lines_[id];
  std::unique_lock<std::mutex> guard;
  if (id == lci::base::OVERFLOW_THREAD) [[unlikely]]
    guard = std::unique_lock(crowd_);
  raise(mine.count, 1);
  raise(mine.sum, value);
  if (value < mine.least.load(std::memory_order_relaxed))
    mine.least.store(value, std::memory_order_relaxed);
  if (value > mine.greatest.load(std::memory_order_relaxed))
    mine.greatest.store(value, std::memory_order_relaxed);
}

totals tally::sum() const noexcept {
  totals all;
  for (const line& one : lines_) {
    all.count += one.count.load(std::memory_order_relaxed);
    all.sum += one.sum.load(std::memory_order_relaxed);
    all.least = std::min(all.least, one.least.load(std::memory_order_relaxed));
    all.greatest = std::max(all.greatest, one.greatest.load(std::memory_order_relaxed));
  }
  return all;
}

counter_options read_counter_options() {
  constexpr std::int64_t SECOND_US = 1'000'000;
  counter_options options;
  if (const auto mode = env::find("LCT_PCOUNTER_MODE")) {
    options.writes_changes_only = env::same_word(*mode, "on-the-fly-lw");
    if (!options.writes_changes_only && !env::same_word(*mode, "on-the-fly"))
      throw lci::argument_error("LCT_PCOUNTER_MODE is \"" + std::string(*mode) +
                                "\": expected on-the-fly or on-the-fly-lw");
    options.writes_samples = true;
    options.outfile = std::string("lct_pcounter.") + lci::base::log::host() + ".%.out";
  }
  if (const auto file = env::find("LCT_PCOUNTER_AUTO_DUMP")) options.outfile = *file;
  options.writes_changes_only |= is_set("LCT_PCOUNTER_DUMP_ON_THE_FLY_LW");
  options.writes_samples |= is_set("LCT_PCOUNTER_DUMP_ON_THE_FLY") || options.writes_changes_only;
  if (options.writes_samples) options.interval_us = SECOND_US;
  if (options.writes_samples && options.outfile.empty()) options.outfile = "stderr";
  if (const auto interval = env::find("LCT_PCOUNTER_RECORD_INTERVAL"))
    options.interval_us =
        env::parse_signed("LCT_PCOUNTER_RECORD_INTERVAL", *interval, 0, 3600 * SECOND_US);
  return options;
}

counter_context::counter_context(std::string name, counter_options options)
    : name_(std::move(name)), options_(std::move(options)) {
  if (options_.interval_us > 0) sampler_ = std::thread([this] { sample_all(); });
}

counter_context::~counter_context() {
  {
    const std::lock_guard guard(lock_);
    ends_ = true;
  }
  end_.notify_all();
  if (sampler_.joinable()) sampler_.join();
  dump_at_end();
  for (const entry& one : entries_) unlist(one.number);
}

void counter_context::sample_all() {
  std::unique_lock guard(lock_);
  while (!end_.wait_for(guard, std::chrono::microseconds(options_.interval_us),
                        [this] { return ends_; })) {
    guard.unlock();
    record();
    if (options_.writes_samples) write_to_file(true);
    guard.lock();
  }
}

LCT_pcounter_handle_t counter_context::find_or_make(const std::string& name,
                                                    LCT_pcounter_type_t type) {
  if (type < LCT_PCOUNTER_COUNTER || type > LCT_PCOUNTER_TIMER)
    throw lci::argument_error("LCT_pcounter_register(): type " +
                              std::to_string(static_cast<int>(type)) + " of " + name);
  const std::lock_guard guard(lock_);
  for (const entry& one : entries_) {
    if (one.counter->name() != name) continue;
    if (one.counter->type() != type)
      throw lci::argument_error("LCT_pcounter_register(): " + name + " has another type already");
    return {type, one.number};
  }
  auto counter = std::make_unique<tally>(name, type);
  entries_.reserve(entries_.size() + 1);  // once listed, the counter must be kept
  const int number = list(counter.get());
  entries_.push_back({number, std::move(counter), 0, 0, {}});
  return {type, number};
}

void counter_context::record() {
  const LCT_time_t now = LCT_now();
  const std::lock_guard guard(lock_);
  for (entry& one : entries_) {
    const std::int64_t sum = one.counter->sum().sum;
    const std::int64_t growth = sum - std::exchange(one.recorded, sum);
    if (one.counter->type() == LCT_PCOUNTER_TREND) one.samples.push_back({now, growth});
  }
}

void counter_context::write_locked(std::FILE* out, const entry& one) const {
  const totals all = one.counter->sum();
  std::fprintf(out, "%s.%s: ", name_.c_str(), one.counter->name().c_str());
  if (one.counter->type() == LCT_PCOUNTER_TIMER && all.count > 0) {
    std::fprintf(out, "count %" PRId64 " total %.3f us average %.3f us min %.3f us max %.3f us\n",
                 all.count, LCT_time_to_us(all.sum),
                 LCT_time_to_us(all.sum) / static_cast<double>(all.count),
                 LCT_time_to_us(all.least), LCT_time_to_us(all.greatest));
  } else {
    std::fprintf(out, "%" PRId64 "\n", all.sum);
  }
}

void counter_context::dump(std::FILE* out) {
  const std::lock_guard guard(lock_);
  for (const entry& one : entries_) {
    write_locked(out, one);
    for (const sample& each : one.samples)
      std::fprintf(out, "  %.6f s: %+" PRId64 "\n", LCT_time_to_s(each.time), each.growth);
  }
  std::fflush(out);
}

void counter_context::write_sample_locked(std::FILE* out) {
  std::fprintf(out, "at %.6f s\n", LCT_time_to_s(LCT_now()));
  for (entry& one : entries_) {
    const std::int64_t sum = one.counter->sum().sum;
    const bool has_changed = std::exchange(one.written, sum) != sum;
    if (has_changed || !options_.writes_changes_only) write_locked(out, one);
  }
  std::fflush(out);
}

void counter_context::write_to_file(bool is_sample) {
  const std::string path = with_rank(options_.outfile);
  std::FILE* const out = path == "stderr"   ? stderr
                         : path == "stdout" ? stdout
                                            : std::fopen(path.c_str(), "ae");
  if (out == nullptr) {
    lci::base::log::warn("counters", "cannot open %s: %s", path.c_str(), std::strerror(errno));
    return;
  }
  if (is_sample) {
    const std::lock_guard guard(lock_);
    write_sample_locked(out);
  } else {
    dump(out);
  }
  if (out != stderr && out != stdout) std::fclose(out);
}

void counter_context::dump_at_end() noexcept {
  try {
    {
      const std::lock_guard guard(lock_);
      if (options_.outfile.empty() || std::exchange(is_written_, true)) return;
    }
    write_to_file(false);
  } catch (const std::exception& problem) {
    lci::base::log::warn("counters", "not written: %s", problem.what());
  }
}

}  // namespace lct
