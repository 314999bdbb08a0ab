// Leak guard, watchdog, must-fire helper, seed: each in front of what it has to report.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "tests/support/leak_guard.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/process_harness.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/watchdog.hpp"

namespace lci::test {
namespace {

TEST(leak_guards, report__an_open_descriptor) {
  int fd = -1;
  EXPECT_TRUE(must_fire(
      [&] {
        leak_guard guard;
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
      },
      "/dev/null"));
  close(fd);
}

TEST(leak_guards, report__a_running_thread) {
  if (HAS_THREAD_SANITIZER)
    GTEST_SKIP() << "thread sanitizer runs a thread of its own, so threads are not counted";
  std::atomic<bool> stop{false};
  std::thread left_behind;
  EXPECT_TRUE(must_fire(
      [&] {
        leak_guard guard;
        left_behind = std::thread([&] {
          while (!stop.load(std::memory_order_relaxed)) std::this_thread::yield();
        });
      },
      "thread(s) still running"));
  stop.store(true, std::memory_order_relaxed);
  left_behind.join();
}

TEST(leak_guards, report__what_should_be_zero) {
  EXPECT_TRUE(must_fire(
      [] {
        leak_guard guard;
        guard.expect_zero("packets", [] { return std::size_t{3}; });
      },
      "3 packets"));
}

TEST(leak_guards, stay_silent__when_everything_is_closed_again) {
  leak_guard guard;
  close(open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::thread([] {}).join();
  guard.expect_zero("packets", [] { return std::size_t{0}; });
  EXPECT_EQ(guard.leaks(), std::vector<std::string>{});
}

TEST(watchdogs, end__what_hangs_and_say_where_it_stands) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        watchdog dog(
            "the test that hangs", [] { fprintf(stderr, "queue 7 holds 3\n"); },
            std::chrono::milliseconds(50));
        for (;;) pause();
      },
      "the test that hangs did not move(.|\n)*queue 7 holds 3");
}

// For longer than its limit. A machine that stands still ends it as well: then once more.
TEST(watchdogs, let_live__what_moves_on) {
  constexpr auto LIMIT = std::chrono::milliseconds(200);
  bool has_lived = false;
  for (int attempts = 0; attempts < 100 && !has_lived; ++attempts) {
    processes one(1, [&](child_process&) {
      watchdog dog("petted", {}, LIMIT);
      const auto start = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - start < 3 * LIMIT) dog.pet();
      return 0;
    });
    has_lived = one.wait(0) == ENDED_WELL;
  }
  EXPECT_TRUE(has_lived);
}

TEST(must_fire_helper, fails__on_silence_and_on_another_text) {
  EXPECT_FALSE(must_fire([] {}, "anything"));
  EXPECT_FALSE(must_fire([] { ADD_FAILURE() << "apples"; }, "pears"));
  EXPECT_TRUE(must_fire([] { ADD_FAILURE() << "apples"; }, "apples"));
}

TEST(must_fire_helper, throws_with__checks_type_and_every_text) {
  const auto throwing = [] { throw std::out_of_range("rank is 9; legal are 0 to 3"); };
  EXPECT_TRUE(throws_with<std::out_of_range>(throwing, {"rank", "9", "0 to 3"}));
  EXPECT_FALSE(throws_with<std::out_of_range>(throwing, {"rank", "8"}));
  EXPECT_FALSE(throws_with<std::length_error>(throwing, {"rank"}));
  EXPECT_FALSE(throws_with<std::out_of_range>([] {}, {"rank"}));
}

TEST(seeds, equal_salts_give_equal_sequences) {
  auto a = seeded(5);
  auto b = seeded(5);
  auto c = seeded(6);
  EXPECT_EQ(a(), b());
  EXPECT_NE(a(), c());
}

}  // namespace
}  // namespace lci::test
