// Lanes that the device's poller lends to other threads: to whom, and until when.
#include "backends/shm/side_inboxes.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "tests/unit/shm/shared_device.hpp"

namespace lci::shm {
namespace {

using test::NOT_BESIDE;
using test::STOP;
using test::worker;

class side_inboxes_test : public test::shared_device {};

TEST_F(side_inboxes_test, lend__a_lane_goes_to_the_thread_that_waits_for_its_messages) {
  worker other([&] { poll(); }, true);
  seen.wanted = {{NEAR, me()}, {FAR, other.id()}};
  poll();  // the test's thread is the poller
  worker far_sender([&] { say(far); });
  other.go();
  lend_far(other);
}

TEST_F(side_inboxes_test, lend__lanes_that_nobody_waits_for_are_shared_out_but_for_one) {
  worker other([&] { poll(); }, true);
  poll();
  worker far_sender([&] { say(far); });
  run_beside(other, [&] {
    return seen.got_beside(FAR, other.id()) + seen.got_beside(NEAR, other.id()) > 10;
  });
  EXPECT_LE(sides().lent(), 1u);
}

TEST_F(side_inboxes_test, lend__a_lane_moves_on_when_another_thread_waits_for_it) {
  worker other([&] { poll(); }, true);
  seen.wanted = {{NEAR, me()}, {FAR, other.id()}};
  poll();
  worker far_sender([&] { say(far); });
  other.go();
  lend_far(other);
  far_sender.pause();
  other.pause();
  seen.wanted[FAR] = me();
  const std::uint64_t before = seen.got(FAR, me());
  other.go();
  far_sender.go();
  run_until([&] { return seen.got(FAR, me()) > before + 10; });
}

TEST_F(side_inboxes_test, take_back__from_a_thread_that_polls_no_more) {
  worker other([&] { poll(); }, true);
  seen.wanted = {{NEAR, me()}, {FAR, other.id()}};
  const base::owned_guard inside(polling());
  ASSERT_TRUE(inside);
  worker far_sender([&] { say(far); });
  for (int i = 0; i < 10; ++i) {
    other.go();
    lend_far(other);
    other.pause();
    const std::uint64_t before = seen.got(FAR, me());
    run_until([&] { return seen.got(FAR, me()) > before + 10; });
    EXPECT_EQ(sides().lent(), 0u);
  }
}

// The poller is in a handler, which waits for what comes in a lane of a thread that polls no more.
TEST_F(side_inboxes_test, take_back__inside_a_handler_of_the_poller) {
  std::atomic<int> insides{0};
  bool is_inside = false;  // of the test's thread
  worker other([&] { poll(); }, true);
  seen.wanted = {{NEAR, me()}, {FAR, other.id()}};
  seen.inside = [&](bool is_beside) {
    if (base::thread_id() != me_ || is_beside || is_inside || sides().lent() == 0) return;
    is_inside = true;
    other.pause();
    const std::uint64_t before = seen.got(FAR, me_);
    while (seen.got(FAR, me_) == before) {
      poll();
      std::this_thread::yield();
    }
    insides.fetch_add(1, std::memory_order_relaxed);
    is_inside = false;
    other.go();
  };
  const base::owned_guard inside(polling());
  ASSERT_TRUE(inside);
  worker far_sender([&] { say(far); });
  for (int i = 0; i < 10; ++i) {
    near.bits = 0;
    lend_far(other);
    near.bits = STOP;
    run_until([&] { return insides.load(std::memory_order_relaxed) > i; });
  }
}

TEST_F(side_inboxes_test, join__the_poller_is_gone_and_a_thread_with_lanes_is_the_next) {
  worker other([&] { poll(); }, true);
  seen.wanted = {{NEAR, me()}, {FAR, other.id()}};
  poll();
  worker far_sender([&] { say(far); });
  other.go();
  lend_far(other);
  // The test's thread goes on sending and polls no more.
  const std::uint64_t before = seen.got(NEAR, other.id());
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (seen.got(NEAR, other.id()) <= before + 10) {
    ASSERT_LT(std::chrono::steady_clock::now(), limit);
    say(near);
    poll_sender();
    std::this_thread::yield();
  }
}

// Its number goes to a new thread, which finds the lanes or not.
TEST_F(side_inboxes_test, take_back__from_a_thread_that_has_ended) {
  poll();
  worker far_sender([&] { say(far); });
  for (int i = 0; i < 5; ++i) {
    worker other([&] { poll(); });
    run_until([&] { return seen.got(FAR, other.id()) + seen.got(NEAR, other.id()) > 10; });
  }
  const std::uint64_t before = seen.got(FAR, me());
  run_until([&] { return seen.got(FAR, me()) > before + 10; });
}

TEST_F(side_inboxes_test, take_back__by_the_next_device_of_that_number) {
  poll();
  worker far_sender([&] { say(far); });
  {
    worker other([&] { poll(); });
    run_beside(other, [&] { return sides().lent() == 1; });
  }
  ranks.b.out.reset();
  ranks.b.dev.reset();
  ranks.b.dev = ranks.b.net->make_device(0);
  const std::uint64_t before = seen.arrived(FAR);
  run_until([&] { return seen.arrived(FAR) > before + 10; });
}

TEST_F(side_inboxes_test, lend__a_lane_that_comes_back_soon_waits) {
  sides().rules.soon_us = 1000;
  worker other([&] { poll(); }, true);
  seen.wanted = {{NEAR, me()}, {FAR, other.id()}};
  const base::owned_guard inside(polling());
  ASSERT_TRUE(inside);
  far.bits = NOT_BESIDE;
  worker far_sender([&] { say(far); });
  other.go();
  const auto start = std::chrono::steady_clock::now();
  run_until([&] { return sides().times() >= 9; });
  const auto passed = std::chrono::steady_clock::now() - start;
  // Each time it was away for as long, or waited as long afterwards; and there are two of them.
  EXPECT_GE(passed, std::chrono::microseconds(3 * 1000));
}

TEST_F(side_inboxes_test, make__a_thread_with_a_large_number_has_none) {
  EXPECT_EQ(sides().make(side_inboxes::MAX_SIDES), nullptr);
  EXPECT_EQ(sides().of(side_inboxes::MAX_SIDES), nullptr);
  EXPECT_FALSE(sides().are_any());
}

}  // namespace
}  // namespace lci::shm
