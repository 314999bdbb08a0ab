// Whoever is alone is alone, whoever passes does so beside others, and nobody waits for ever.
#include "lci/base/gate.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lci::base {
namespace {

TEST(gate, pass__beside_others) {
  gate g;
  const gate_pass first(g);
  std::thread other([&] { const gate_pass second(g); });
  other.join();
}

TEST(gate, alone__waits_for_who_is_inside_and_keeps_others_out) {
  gate g;
  std::atomic<bool> was_alone{false};
  std::thread other;
  {
    const gate_pass inside(g);
    other = std::thread([&] { g.alone([&] { was_alone = true; }); });
    for (int i = 0; i < 1000; ++i) {
      std::this_thread::yield();
      ASSERT_FALSE(was_alone);
    }
  }
  other.join();
  EXPECT_TRUE(was_alone);
}

// Plain words that only one side may touch at a time: the thread sanitizer watches, and sums tell.
TEST(gate, many_and_one__never_at_the_same_time) {
  gate g;
  constexpr int THREADS = 4, ROUNDS = 20000;
  std::vector<long> mine(THREADS * 16, 0);
  std::atomic<int> running{THREADS};
  long looked = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < THREADS; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < ROUNDS; ++i) {
        const gate_pass inside(g);
        long& word = mine[static_cast<std::size_t>(t) * 16];
        ++word;
        ++word;
      }
      --running;
    });
  do {
    g.alone([&] {
      for (int t = 0; t < THREADS; ++t) EXPECT_EQ(mine[static_cast<std::size_t>(t) * 16] % 2, 0);
      ++looked;
    });
    std::this_thread::yield();
  } while (running != 0);
  for (std::thread& one : threads) one.join();
  for (int t = 0; t < THREADS; ++t) EXPECT_EQ(mine[static_cast<std::size_t>(t) * 16], 2 * ROUNDS);
  EXPECT_GT(looked, 0);
}

}  // namespace
}  // namespace lci::base
