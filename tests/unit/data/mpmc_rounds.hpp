// What every queue of many producers and consumers has to do. Threads: its own.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace lci::test {

// Every element comes out once; the elements of one producer reach one consumer in order.
// push(value) waits until there is room; try_pop(value) says whether there was one.
template <class Push, class Pop>
void expect_each_once_in_order(Push&& push, Pop&& try_pop) {
  constexpr std::uint64_t PRODUCERS = 3, CONSUMERS = 3, EACH = 20000;
  std::atomic<std::uint64_t> taken{0};
  std::atomic<int> disorder{0};
  std::vector<std::atomic<std::uint8_t>> seen(PRODUCERS * EACH);
  std::vector<std::thread> threads;
  for (std::uint64_t p = 0; p < PRODUCERS; ++p)
    threads.emplace_back([&, p] {
      for (std::uint64_t i = 0; i < EACH; ++i) push(p * EACH + i);
    });
  for (std::uint64_t c = 0; c < CONSUMERS; ++c)
    threads.emplace_back([&] {
      std::uint64_t next[PRODUCERS] = {}, v;
      while (taken.load(std::memory_order_relaxed) < PRODUCERS * EACH) {
        if (!try_pop(v)) {
          std::this_thread::yield();
          continue;
        }
        ++taken;
        ++seen[v];
        if (v % EACH < next[v / EACH]) ++disorder;
        next[v / EACH] = v % EACH + 1;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(disorder, 0);
  for (std::size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], 1) << i;
}

}  // namespace lci::test
