// Do many threads that post and poll at once lose, repeat, reorder or damage anything?
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/contract/stress.hpp"
#include "tests/contract/suite.hpp"
#include "tests/support/sanitized.hpp"

namespace lci::test {

TEST_P(backend_contract, threads__many_post_and_poll_and_everything_arrives_once) {
  group& g = open();
  const stress_plan plan{.threads = 4, .per_thread = IS_SANITIZED ? 600u : 3000u};
  EXPECT_EQ(run_stress(g, plan), std::vector<std::string>{});
}

TEST_P(backend_contract, threads__more_than_there_are_cores) {
  group& g = open();
  const stress_plan plan{.threads = 12, .per_thread = IS_SANITIZED ? 100u : 300u};
  EXPECT_EQ(run_stress(g, plan), std::vector<std::string>{});
}

TEST_P(backend_contract, threads__that_come_and_go_leave_nothing_behind) {
  group& g = open();
  for (int generation = 0; generation < 5; ++generation) {
    const stress_plan plan{.threads = 3, .per_thread = 200};
    EXPECT_EQ(run_stress(g, plan), std::vector<std::string>{}) << "generation " << generation;
  }
}

TEST_P(backend_contract, poll__only_one_thread_is_inside) {
  group& g = open();
  member& receiver = g.at(1);
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::atomic<bool> stop{false};
  receiver.seen().keep_bytes = false;
  receiver.seen().on_arrival = [&](const net::arrival&) {
    // relaxed: the numbers are compared after all threads have been joined.
    const int now = inside.fetch_add(1, std::memory_order_relaxed) + 1;
    if (now > most.load(std::memory_order_relaxed)) most.store(now, std::memory_order_relaxed);
    std::this_thread::yield();
    inside.fetch_sub(1, std::memory_order_relaxed);
    return net::verdict::taken;
  };
  std::vector<std::thread> pollers;
  for (int i = 0; i < 3; ++i) {
    pollers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        receiver.devices[0]->poll(*receiver.sinks[0], 16);
        std::this_thread::yield();
      }
    });
  }
  constexpr std::uint32_t COUNT = IS_SANITIZED ? 500 : 2000;
  for (std::uint32_t i = 0; i < COUNT; ++i) {
    g.post([&] { return g.at(0).to().send_inline(1, i, nullptr, 0, &i, sizeof i); });
  }
  g.until([&] { return receiver.seen().arrived() >= COUNT; }, "all messages");
  stop.store(true, std::memory_order_relaxed);
  for (std::thread& t : pollers) t.join();
  EXPECT_EQ(receiver.seen().arrived(), COUNT);
  EXPECT_EQ(most.load(std::memory_order_relaxed), 1)
      << "two threads were inside poll() of one device";
  receiver.seen().on_arrival = nullptr;
}

}  // namespace lci::test
