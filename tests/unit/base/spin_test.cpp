#include "lci/base/spin.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <thread>
#include <vector>

namespace lci::base {
namespace {

class spin_wait_test : public testing::Test {
 protected:
  ~spin_wait_test() override { spin_wait::set_oversubscribed(false); }
};

TEST_F(spin_wait_test, set_oversubscribed__is_read_back) {
  EXPECT_FALSE(spin_wait::is_oversubscribed());
  spin_wait::set_oversubscribed(true);
  EXPECT_TRUE(spin_wait::is_oversubscribed());
}

// Two threads on one core, handing a number to and fro: without a yield each hand-over costs a time
// slice of milliseconds, so 2000 of them would take many seconds of processor time.
TEST_F(spin_wait_test, wait__gives_the_core_to_the_thread_it_waits_for) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &all)) continue;
    CPU_SET(i, &one);
    break;
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  for (const bool oversubscribed : {true, false}) {
    spin_wait::set_oversubscribed(oversubscribed);
    std::atomic<int> turn{0};
    constexpr int HAND_OVERS = 2000;
    const auto play = [&](int parity) {
      for (int i = parity; i < HAND_OVERS; i += 2) {
        // edge spin_test.turn: pairs with the release store below, in the other thread.
        for (spin_wait wait; turn.load(std::memory_order_acquire) != i;) wait();
        turn.store(i + 1, std::memory_order_release);
      }
    };
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    std::thread other(play, 1);
    play(0);
    other.join();
    getrusage(RUSAGE_SELF, &after);
    const auto ms = [](const rusage& u) {
      return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
             (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
    };
    EXPECT_EQ(turn.load(), HAND_OVERS);
    EXPECT_LT(ms(after) - ms(before), 2000);
  }
  sched_setaffinity(0, sizeof all, &all);
}

}  // namespace
TEST(turn_away, wait__longer_from_time_to_time_until_the_thread_gets_its_turn) {
  turn_away::end();
  std::vector<std::uint32_t> pauses;
  for (int i = 0; i < 7; ++i) pauses.push_back(turn_away::wait());
  EXPECT_EQ(pauses, (std::vector<std::uint32_t>{1, 3, 7, 15, 16, 16, 16}));
  turn_away::end();
  EXPECT_EQ(turn_away::wait(), 1u);
  // Another thread has its own.
  std::thread([] { EXPECT_EQ(turn_away::wait(), 1u); }).join();
  EXPECT_EQ(turn_away::wait(), 3u);
  turn_away::end();
}

}  // namespace lci::base
