// What a thread does with the lanes that were lent to it: nothing is lost, repeated or reordered,
// and what is not for it reaches the poller.
#include "backends/shm/side_inbox.hpp"

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

class side_inbox_test : public test::shared_device {};

// With messages in slots, and in packets of their sender.
class side_inbox_nested : public test::shared_device, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    shared_device::SetUp();
    far.is_in_packets = GetParam();
  }
};
INSTANTIATE_TEST_SUITE_P(in_packets, side_inbox_nested, testing::Bool());

TEST_F(side_inbox_test, give_back__what_is_not_for_it_reaches_the_poller_in_order) {
  worker other([&] { poll(); }, true);
  seen.wanted = {{NEAR, me()}, {FAR, other.id()}};
  poll();
  // One in 64 is not.
  worker far_sender([&] {
    far.bits = far.next % 64 == 63 ? NOT_BESIDE : 0;
    say(far);
  });
  other.go();
  for (int i = 0; i < 20; ++i) {
    lend_far(other);
    const std::uint64_t before = seen.specials();
    run_until([&] { return seen.specials() > before; });
  }
}

TEST_P(side_inbox_nested, give_back__inside_a_handler_that_waits_for_it) {
  std::atomic<std::uint32_t> insides{0};
  std::atomic<bool> is_over{false};
  bool is_inside = false;  // of `other`: the next such message would wait inside of this one
  worker other([&] { poll(); }, true);
  seen.wanted = {{NEAR, me()}, {FAR, other.id()}};
  // Every 64th message waits, in its handler, for the next one, which is for the poller.
  seen.inside = [&](bool is_beside) {
    if (base::thread_id() != other.id() || std::exchange(is_inside, true)) return;
    const std::uint32_t before = seen.arrived(FAR);
    while (seen.arrived(FAR) == before && !is_over.load(std::memory_order_relaxed)) {
      poll();
      std::this_thread::yield();
    }
    is_inside = false;
    if (is_beside) insides.fetch_add(1, std::memory_order_relaxed);
  };
  poll();
  worker far_sender([&] {
    far.bits = far.next % 64 == 62 ? STOP : far.next % 64 == 63 ? NOT_BESIDE : 0;
    say(far);
  });
  for (std::uint32_t i = 0; i < 10; ++i) {
    const std::uint32_t before = insides.load(std::memory_order_relaxed);
    run_beside(other, [&] { return insides.load(std::memory_order_relaxed) > before; });
    for (int n = 0; n < 50; ++n) run_once();  // either may be the poller
  }
  is_over.store(true, std::memory_order_relaxed);
}

TEST_F(side_inbox_test, peer_ends__after_everything_that_it_wrote_wherever_its_lanes_are) {
  worker other([&] { poll(); }, true);
  seen.wanted = {{NEAR, me()}, {FAR, other.id()}};
  poll();
  std::uint64_t sent = 0;
  {
    worker far_sender([&] { say(far); });
    other.go();
    lend_far(other);
    far_sender.pause();
    sent = near.next + far.next;
  }
  end_peer_after(sent);
  EXPECT_EQ(sides().lent(), 0u);
}

TEST_P(side_inbox_nested, peer_ends__while_a_handler_beside_waits_for_that) {
  std::atomic<bool> is_inside{false};
  worker other([&] { poll(); }, true);
  seen.wanted = {{NEAR, me()}, {FAR, other.id()}};
  seen.inside = [&](bool is_beside) {
    if (!is_beside || base::thread_id() == me_) return;
    if (is_inside.exchange(true, std::memory_order_relaxed)) return;
    while (seen.ended().first == 0) {
      poll();
      std::this_thread::yield();
    }
  };
  poll();
  {
    worker far_sender([&] { say(far); });
    other.go();
    lend_far(other);
    far_sender.pause();
    far.bits = STOP;
    far_sender.go();
    run_until([&] { return is_inside.load(std::memory_order_relaxed); });
  }
  const std::uint64_t sent = near.next + far.next;
  end_peer_after(sent);
}

TEST_F(side_inbox_test, give_back__a_lane_that_brings_nothing_for_long) {
  // It takes thousands of polls, more than there are turns to be had on a busy machine.
  worker other(
      [&] {
        for (std::uint32_t n = 0; n < side_inbox::REVIEW_EVERY / 8; ++n) poll();
      },
      true);
  seen.wanted = {{NEAR, me()}, {FAR, other.id()}};
  poll();
  worker far_sender([&] { say(far); });
  other.go();
  lend_far(other);
  far_sender.pause();
  other.pause();
  sides().rules.look_every_us = 60 * 1000 * 1000;  // the poller does not take it
  other.go();
  run_until([&] { return sides().lent() == 0; });
}

}  // namespace
}  // namespace lci::shm
