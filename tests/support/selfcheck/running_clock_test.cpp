#include "tests/support/running_clock.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/support/process_harness.hpp"

namespace lci::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

long ms_since(steady_clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - start).count();
}

// However late a beat comes: one moment counts for both of its times.
TEST(running_clock, next__is_never_ahead_and_never_goes_back) {
  constexpr std::uint32_t MOST = 2 * running_clock::PAUSE_MS;
  for (std::uint32_t late = 0; late <= MOST; ++late) {
    const std::uint64_t beat = running_clock::next(running_clock::beat_of(0, 0), late);
    for (std::uint32_t at = late; at <= late + MOST; ++at) {
      ASSERT_LE(running_clock::shows(beat, at), at) << late;
      ASSERT_GE(running_clock::shows(beat, at),
                running_clock::shows(running_clock::beat_of(0, 0), at))
          << late;
    }
  }
}

// Runs on while nothing sleeps but who asks, and is never ahead of time.
TEST(running_clock, ms__is_time_that_goes_by) {
  const steady_clock::time_point start = steady_clock::now();
  const running_clock clock;
  long before = clock.ms();
  while (clock.ms() < 300) {
    const long now = clock.ms();
    ASSERT_GE(now, before);
    before = now;
  }
  EXPECT_GE(ms_since(start), 300);
}

// A byte in a pipe says that the pause is over. A signal handler would do, but thread sanitizer
// loses one of some hundred signals that come as a process goes on.
TEST(running_clock, ms__does_not_count_a_pause) {
  constexpr long PAUSE = 1500;
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe(ends), 0);
  processes one(1, [&](child_process& me) {
    const running_clock clock;
    // This thread may wait for a processor between two looks, so the outer clock is looked at first
    // and last. Either may show a millisecond less than has passed.
    const steady_clock::time_point start = steady_clock::now();
    const long before = clock.ms();
    me.reach("stand still");
    char byte = 0;
    if (read(ends[0], &byte, 1) != 1) return 2;
    const long counted = clock.ms() - before;
    return ms_since(start) - counted >= PAUSE - long{running_clock::PAUSE_MS} - 2 ? 0 : 1;
  });
  ASSERT_TRUE(one.wait_for(0, "stand still"));
  one.stop(0);
  std::this_thread::sleep_for(milliseconds(PAUSE));
  one.kill(0, SIGCONT);
  EXPECT_EQ(write(ends[1], "", 1), 1);
  one.expect_ends();
  close(ends[0]);
  close(ends[1]);
}

// Who blocks is late: that is what the bounds are for. A machine that stands still just then may do
// so again, for as long as a hang may last.
TEST(running_clock, ms__counts_while_the_others_sleep) {
  constexpr long SLEEP = 3 * long{running_clock::PAUSE_MS};
  const running_clock clock;
  bool was_counted = false;
  for (int attempts = 0; attempts < 400 && !was_counted; ++attempts) {
    const long before = clock.ms();
    std::this_thread::sleep_for(milliseconds(SLEEP));
    was_counted = clock.ms() - before >= SLEEP - 1;
  }
  EXPECT_TRUE(was_counted);
}

}  // namespace
}  // namespace lci::test
