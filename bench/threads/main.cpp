// bench_threads [--threads LIST] [--rounds N] [--time MS] [--json FILE]: the objects that all
// threads of a program share, a completion queue, the packet pool and a matching engine, in turn
// with what a program would write in their place. Each thread has a processor of its own. A value
// is pairs of calls per second, all threads together; a ratio is taken within a round.
#include <getopt.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/threads/contenders.hpp"
#include "bench/threads/team.hpp"
#include "tools/perf/arguments.hpp"
#include "tools/perf/handover.hpp"
#include "tools/perf/statistics.hpp"
#include "tools/perf/topology.hpp"

namespace bench {

namespace {

constexpr int MANY = 64;  // calls between two looks at the sign, and objects that one thread holds

struct settings {
  std::vector<int> threads;
  int rounds = 7;
  int time_ms = 20;
  std::string json;
};

lci::status_t done_status() {
  lci::status_t status(lci::errorcode_t::done);
  status.rank = 0;
  return status;
}

// What one thread does with an object: (object, its number, how many threads there are, sign).

// Never waits for ever: whoever looks for a status has signalled one.
struct signal_and_take {
  template <class Queue>
  std::uint64_t operator()(Queue& queue, int, int, const stop_sign& stop) const {
    const lci::status_t status = done_status();
    lci::status_t got;
    std::uint64_t n = 0;
    for (; !stop.is_up(); n += MANY)
      for (int i = 0; i < MANY; ++i) {
        queue.signal(status);
        while (!queue.take(got)) continue;
      }
    return n;
  }
};

// One half signals, the other takes. A thread that signals is never far ahead of one that takes.
class signal_or_take {
 public:
  template <class Queue>
  std::uint64_t operator()(Queue& queue, int thread, int threads, const stop_sign& stop) const {
    std::atomic<std::uint64_t>& taken = (*taken_)[static_cast<std::size_t>(thread / 2)].count;
    if (thread % 2 == 0) {
      signal(queue, taken, stop);
      return 0;
    }
    const std::uint64_t before = taken.load(std::memory_order_relaxed);
    lci::status_t got;
    while (!stop.is_up())
      for (int i = 0; i < MANY; ++i)
        if (queue.take(got))
          taken.store(taken.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    const std::uint64_t n = taken.load(std::memory_order_relaxed) - before;
    while (queue.take(got)) continue;
    require(threads % 2 == 0, "an even number of threads is needed");
    return n;
  }

 private:
  static constexpr std::uint64_t MOST_AHEAD = 1024;
  struct alignas(128) line {
    std::atomic<std::uint64_t> count{0};
  };

  template <class Queue>
  static void signal(Queue& queue, const std::atomic<std::uint64_t>& taken, const stop_sign& stop) {
    const lci::status_t status = done_status();
    const std::uint64_t before = taken.load(std::memory_order_relaxed);
    for (std::uint64_t n = 0; !stop.is_up();) {
      if (n > taken.load(std::memory_order_relaxed) - before + MOST_AHEAD) continue;
      for (int i = 0; i < MANY; ++i) queue.signal(status);
      n += MANY;
    }
  }

  std::shared_ptr<std::vector<line>> taken_ = std::make_shared<std::vector<line>>(512);
};

struct get_and_put {
  template <class Pool>
  std::uint64_t operator()(Pool& pool, int, int, const stop_sign& stop) const {
    std::uint64_t n = 0;
    for (; !stop.is_up(); n += MANY)
      for (int i = 0; i < MANY; ++i) {
        void* const packet = pool.get();
        require(packet != nullptr, "the pool is empty");
        *static_cast<volatile char*>(packet) = 1;
        pool.put(packet);
      }
    return n;
  }
};

struct get_many_and_put {
  template <class Pool>
  std::uint64_t operator()(Pool& pool, int, int, const stop_sign& stop) const {
    std::uint64_t n = 0;
    std::array<void*, MANY> held;
    for (; !stop.is_up(); n += MANY) {
      for (void*& packet : held) {
        packet = pool.get();
        require(packet != nullptr, "the pool is empty");
        *static_cast<volatile char*>(packet) = 1;
      }
      for (void* const packet : held) pool.put(packet);
    }
    return n;
  }
};

// Each thread has keys of its own, all different.
template <int POSTED>
struct match_own_keys {
  template <class Engine>
  std::uint64_t operator()(Engine& engine, int thread, int, const stop_sign& stop) const {
    using side = lci::matching_entry_type_t;
    const std::uint64_t first = static_cast<std::uint64_t>(thread) << 40;
    int receive = 0, message = 0;
    std::uint64_t n = 0;
    for (; !stop.is_up(); n += MANY)
      for (int i = 0; i < MANY; i += POSTED) {
        const std::uint64_t key = first + n + static_cast<std::uint64_t>(i);
        for (std::uint64_t k = 0; k < POSTED; ++k)
          require(engine.meet(key + k, &receive, side::recv) == nullptr, "a wrong match");
        for (std::uint64_t k = 0; k < POSTED; ++k)
          require(engine.meet(key + k, &message, side::send) == &receive, "no match");
      }
    return n;
  }
};

// All threads file receives and messages under the same key.
struct match_one_key {
  template <class Engine>
  std::uint64_t operator()(Engine& engine, int, int, const stop_sign& stop) const {
    using side = lci::matching_entry_type_t;
    int value = 0;
    std::uint64_t n = 0;
    for (; !stop.is_up(); n += MANY)
      for (int i = 0; i < MANY; ++i) {
        (void)engine.meet(7, &value, side::recv);
        (void)engine.meet(7, &value, side::send);
      }
    return n;
  }
};

// In turn, with each number of threads. Another one begins in each round.
class contest {
 public:
  contest(const settings& s, std::vector<int> cpus) : settings_(s), cpus_(std::move(cpus)) {
    r_ns_ = cpus_.size() > 1 ? lci_perf::handover_ns(cpus_[0], cpus_[1]) : 0;
  }

  template <class... Objects, class Work>
  void run(const char* title, Work work) {
    std::printf("\n%s\n", title);
    for (const int threads : settings_.threads) {
      team all({cpus_.begin(), cpus_.begin() + threads});
      std::vector<std::string> names;
      std::vector<team::work> works;
      (add<Objects>(work, threads, names, works), ...);
      measure(title, all, names, works);
    }
    write();  // now, in case a later one fails
  }

  double r_ns() const { return r_ns_; }

 private:
  template <class Object, class Work>
  static void add(Work work, int threads, std::vector<std::string>& names,
                  std::vector<team::work>& works) {
    names.emplace_back(Object::NAME);
    works.emplace_back(
        [object = std::make_shared<Object>(), work, threads](int thread, const stop_sign& stop) {
          return work(*object, thread, threads, stop);
        });
  }

  void write() const {
    if (settings_.json.empty()) return;
    std::ofstream file(settings_.json);
    file << nlohmann::json{{"r_ns", r_ns_}, {"results", rows_}}.dump(1) << '\n';
    require(file.good(), "cannot write the JSON file");
  }

  void measure(const char* title, team& all, const std::vector<std::string>& names,
               const std::vector<team::work>& works) {
    const std::chrono::milliseconds time(settings_.time_ms);
    for (const team::work& one : works) all.rate(one, time / 4);
    std::vector<std::vector<double>> rates(works.size());
    for (std::size_t round = 0; round < static_cast<std::size_t>(settings_.rounds); ++round)
      for (std::size_t i = 0; i < works.size(); ++i) {
        const std::size_t who = (round + i) % works.size();
        rates[who].push_back(all.rate(works[who], time) / 1e6);
      }
    std::printf("  %2d threads", all.size());
    for (std::size_t who = 0; who < works.size(); ++who) {
      const lci_perf::spread mine = lci_perf::spread_of(rates[who]);
      nlohmann::json row{{"what", title},    {"threads", all.size()}, {"who", names[who]},
                         {"unit", "M/s"},    {"value", mine.median},  {"low", mine.low},
                         {"high", mine.high}};
      std::printf("%s  %s %.1f M/s", who == 0 ? "" : ";", names[who].c_str(), mine.median);
      if (who > 0) {
        const lci_perf::spread x = lci_perf::advantage(rates[0], rates[who], false);
        std::printf(", lci x %.2f [%.2f..%.2f]", x.median, x.low, x.high);
        row["lci_is_better"] = x.median;
      }
      rows_.push_back(std::move(row));
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  const settings& settings_;
  const std::vector<int> cpus_;
  double r_ns_ = 0;
  nlohmann::json rows_ = nlohmann::json::array();
};

bool parse(int argc, char** argv, settings& s) {
  constexpr option OPTIONS[] = {{"threads", required_argument, nullptr, 't'},
                                {"rounds", required_argument, nullptr, 'r'},
                                {"time", required_argument, nullptr, 'm'},
                                {"json", required_argument, nullptr, 'j'},
                                {nullptr, 0, nullptr, 0}};
  for (int which; (which = getopt_long(argc, argv, "", OPTIONS, nullptr)) != -1;) {
    if (which == '?') return false;
    if (which == 'j') {
      s.json = optarg;
      continue;
    }
    try {
      if (which == 't')
        s.threads = lci_perf::parse_numbers(optarg, 2, lci_perf::MOST_SEATS);
      else
        (which == 'r' ? s.rounds : s.time_ms) = lci_perf::parse_numbers(optarg, 1, 10'000).front();
    } catch (const std::invalid_argument& problem) {
      std::fprintf(stderr, "bench_threads: %s\n", problem.what());
      return false;
    }
  }
  return optind == argc;
}

// As many threads as there are processors: 2, 4, 8 ...
std::vector<int> usual_numbers(std::size_t processors) {
  std::vector<int> numbers;
  for (std::size_t n = 2; n <= processors; n *= 2) numbers.push_back(static_cast<int>(n));
  return numbers;
}

void run(settings& s) {
  const std::vector<int> cpus = lci_perf::usable_cpus();
  if (s.threads.empty()) s.threads = usual_numbers(cpus.size());
  for (const int n : s.threads)
    require(n >= 2 && n % 2 == 0 && static_cast<std::size_t>(n) <= cpus.size(),
            "--threads: even numbers, at most one thread per processor");
  contest c(s, cpus);
  std::printf("%zu processors, R %.1f ns between the first two; pairs of calls, all threads\n",
              cpus.size(), c.r_ns());
  c.run<lci_queue, lci_queue_per_thread, locked_deque, boost_queue>(
      "completion queue: each thread signals and takes one status", signal_and_take{});
  c.run<lci_queue, lci_queue_per_thread, locked_deque, boost_queue>(
      "completion queue: one half of the threads signals, the other takes", signal_or_take{});
  c.run<lci_pool, locked_list, heap>("packets of 8 KiB: each thread gets one and puts it back",
                                     get_and_put{});
  c.run<lci_pool, locked_list, heap>("packets of 8 KiB: each thread gets 64 and puts them back",
                                     get_many_and_put{});
  c.run<lci_matching, locked_buckets>("matching: a receive and its message, keys of each thread",
                                      match_own_keys<1>{});
  c.run<lci_matching, locked_buckets>("matching: 64 receives, then their messages",
                                      match_own_keys<MANY>{});
  c.run<lci_matching, locked_buckets>("matching: all threads use one key", match_one_key{});
}

}  // namespace

}  // namespace bench

int main(int argc, char** argv) {
  bench::settings s;
  if (!bench::parse(argc, argv, s)) {
    std::fputs("usage: bench_threads [--threads 2,4] [--rounds N] [--time MS] [--json FILE]\n",
               stderr);
    return 2;
  }
  lci::g_runtime_init();
  bench::run(s);
  lci::g_runtime_fina();
  return 0;
}
