// The cost of a registration that is found in the cache, among 10^5 live ones, by four threads that
// use sixteen each; and for comparison the slow look-up after a nearby unmap, a miss that evicts
// (registering itself costs nothing here), a lock around a map, and an unmap. Medians over runs,
// per operation. Threads: its own.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "lci/mem/region_cache.hpp"

namespace {

using lci::mem::cache_range;

constexpr std::size_t LIVE = 100000, HOT = 16, THREADS = 4, RUNS = 21;

struct free_network final : lci::mem::cache_registrar {
  answer register_range(const cache_range&) override {
    answer out;
    out.handle = made.fetch_add(1, std::memory_order_relaxed) + 1;
    return out;
  }
  void deregister_range(std::uint64_t) noexcept override {}
  std::atomic<std::uint64_t> made{0};
};
struct news final : lci::mem::unmap_source {
  std::string start(lci::mem::unmap_listener& to) override {
    listener = &to;
    return "";
  }
  void stop(lci::mem::unmap_listener&) noexcept override {}
  lci::mem::unmap_listener* listener = nullptr;
};

// With a page between neighbours, so that none are merged.
constexpr std::uintptr_t BASE = std::uintptr_t{1} << 40, STRIDE = 0x5000;
cache_range range_of(std::size_t number) {
  const std::uintptr_t begin = BASE + number * STRIDE;
  return {begin + 64, begin + 0x3000, lci::mem::mem_kind::host, 0};
}

double ns_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

struct summary {
  double low, median, high;
};
summary summarize(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return {all.front(), all[all.size() / 2], all.back()};
}
void print(const char* what, const std::vector<double>& ns) {
  const summary s = summarize(ns);
  std::printf("%-52s median %8.1f ns   (%.1f to %.1f)\n", what, s.median, s.low, s.high);
}

// Time per operation as each thread sees it, one figure per run and thread.
template <class Body>
std::vector<double> on_threads(std::size_t count, std::size_t operations, Body body) {
  std::vector<double> all;
  std::mutex mutex;
  for (std::size_t run = 0; run < RUNS; ++run) {
    std::atomic<std::size_t> ready{0};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < count; ++t) {
      threads.emplace_back([&, t] {
        std::array<cache_range, HOT> mine;
        for (std::size_t i = 0; i < HOT; ++i) mine[i] = range_of((t * HOT + i) * 1543 % LIVE);
        for (std::size_t i = 0; i < 4 * HOT; ++i) body(mine[i % HOT]);
        ready.fetch_add(1);
        while (ready.load() < count) std::this_thread::yield();
        timespec begin{}, end{};
        // The thread's own time: with fewer cores than threads it waits for its turn.
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        for (std::size_t i = 0; i < operations; ++i) body(mine[i % HOT]);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        const double ns = static_cast<double>(end.tv_sec - begin.tv_sec) * 1e9 +
                          static_cast<double>(end.tv_nsec - begin.tv_nsec);
        const std::lock_guard lock(mutex);
        all.push_back(ns / static_cast<double>(operations));
      });
    }
    for (std::thread& one : threads) one.join();
  }
  return all;
}

void hits(lci::mem::region_cache& cache) {
  const auto use = [&](const cache_range& want) {
    lci::mem::region_cache::failure why;
    cache.release(*cache.acquire(want, why));
  };
  print("hit and release, 1 thread", on_threads(1, 1000000, use));
  print("hit and release, 4 threads, 16 hot ranges each", on_threads(THREADS, 1000000, use));
}

// The obvious first implementation.
void map_with_a_lock() {
  std::mutex mutex;
  std::map<std::uintptr_t, std::pair<std::uintptr_t, int>> all;
  for (std::size_t i = 0; i < LIVE; ++i) {
    const cache_range r = range_of(i);
    all[r.begin] = {r.end, 0};
  }
  print("std::map under a std::mutex, 4 threads",
        on_threads(THREADS, 100000, [&](const cache_range& want) {
          {
            const std::lock_guard lock(mutex);
            ++std::prev(all.upper_bound(want.begin))->second.second;
          }
          const std::lock_guard lock(mutex);
          --std::prev(all.upper_bound(want.begin))->second.second;
        }));
}

template <class Body>
void one_thread(const char* what, std::size_t operations, Body body) {
  std::vector<double> all;
  for (std::size_t run = 0; run < RUNS; ++run) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < operations; ++i) body(run * operations + i);
    all.push_back(ns_since(start) / static_cast<double>(operations));
  }
  print(what, all);
}

}  // namespace

int main() {
  free_network network;
  news told;
  lci::mem::cache_limits limits;
  limits.count = LIVE;
  lci::mem::region_cache cache(network, limits, &told);
  lci::mem::region_cache::failure why;
  for (std::size_t i = 0; i < LIVE; ++i) cache.release(*cache.acquire(range_of(i), why));
  std::printf("%zu live ranges, %zu cores\n", cache.count().live,
              static_cast<std::size_t>(std::thread::hardware_concurrency()));
  hits(cache);
  map_with_a_lock();
  const auto touch = [&](std::size_t i) { cache.release(*cache.acquire(range_of(i), why)); };
  one_thread("found by address, not remembered", 20000,
             [&](std::size_t i) { touch(i * 7919 % LIVE); });
  one_thread("unmap where nothing is registered", 100000,
             [&](std::size_t i) { told.listener->on_unmap(BASE / 2 + i * 4096, 4096); });
  one_thread("unmap in a gap near by, then a slow look", 20000, [&](std::size_t) {
    told.listener->on_unmap(BASE + 0x3000, 4096);
    touch(0);
  });
  one_thread("miss that evicts, network at no cost", 2000, [&](std::size_t i) { touch(LIVE + i); });
  return 0;
}
