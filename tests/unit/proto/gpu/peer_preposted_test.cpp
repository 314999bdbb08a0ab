// What a sender has heard of its peers' receives: in another order, late, or not at all.
#include <gtest/gtest.h>

#include "lci/proto/gpu/common.hpp"
#include "tests/unit/proto/preposted_world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;
using lci::mem::mem_kind;

// As if other threads had posted them, whose messages take other lanes.
class overtaking_announcements : public preposted_receives {
 protected:
  static gpu_options options() {
    gpu_options o = preposted_receives::options();
    o.sim.caps.ordered = false;
    return o;
  }
  overtaking_announcements() : preposted_receives(options()) { encourage(); }
  // What is told next comes that much later.
  void delay(std::uint32_t polls) {
    w.sim.change([&](sim_options& o) { o.max_delay_polls = polls; });
  }
  void jump_ahead(bool does) {
    w.sim.change([&](sim_options& o) { o.reorder_one_in = does ? 1 : 0; });
  }
};

TEST_F(overtaking_announcements, both_there__receives_are_used_in_their_order) {
  const auto r1 = receive(mem_kind::device, 7);
  jump_ahead(true);
  const auto r2 = receive(mem_kind::device, 7);
  jump_ahead(false);
  step_sender();
  EXPECT_EQ(w.sim.counters().reordered, 1u);
  const auto a = send(mem_kind::device, 7, 1, 3000);
  EXPECT_EQ(claims, 1u);
  w.step(50);
  const auto b = send(mem_kind::device, 7, 2, 6000);
  EXPECT_EQ(claims, 2u);
  w.step(50);
  EXPECT_TRUE(holds(*r1, 1, 3000));
  EXPECT_TRUE(holds(*r2, 2, 6000));
  expect_clean();
}

TEST_F(overtaking_announcements, the_older_one_not_there_yet__the_later_one_is_not_claimed) {
  constexpr std::uint32_t LATE = 1000;
  delay(LATE);
  const auto r1 = receive(mem_kind::device, 7);
  delay(0);
  jump_ahead(true);
  const auto r2 = receive(mem_kind::device, 7);
  jump_ahead(false);
  step_sender(2);
  const auto a = send(mem_kind::device, 7, 1, 3000);
  EXPECT_EQ(claims, 0u);
  w.step(50);
  EXPECT_TRUE(holds(*r1, 1, 3000));
  step_sender(LATE);
  const auto b = send(mem_kind::device, 7, 2, 6000);
  EXPECT_EQ(claims, 1u) << "that of the first was taken back";
  w.step(50);
  EXPECT_TRUE(holds(*r2, 2, 6000));
  expect_clean();
}

TEST_F(overtaking_announcements, of_the_same_slot__the_older_one_does_not_replace_the_later_one) {
  constexpr std::uint32_t LATE = 1000;
  delay(LATE);
  const auto r1 = receive(mem_kind::device, 7);
  delay(0);
  const std::byte data[100] = {};
  EXPECT_EQ(
      w[1].matcher->on_eager(w[1].queues->host, {.rank = 0, .data = data, .size = sizeof(data)}, 7,
                             lci::matching_policy_t::rank_tag),
      lci::net::verdict::taken);
  jump_ahead(true);
  const auto r2 = receive(mem_kind::device, 7);
  jump_ahead(false);
  step_sender(LATE + 1);
  const auto b = send(mem_kind::device, 7, 2, 6000);
  EXPECT_EQ(claims, 1u);
  w.step(50);
  EXPECT_TRUE(holds(*r2, 2, 6000));
  expect_clean();
}

// The device that was told of it has ended, say.
TEST_F(overtaking_announcements, one_is_never_heard__only_until_its_receive_is_over) {
  constexpr std::uint32_t NEVER = 5000;
  delay(NEVER);
  const auto r1 = receive(mem_kind::device, 7);
  delay(0);
  jump_ahead(true);
  const auto r2 = receive(mem_kind::device, 7);
  step_sender(2);
  const auto a = send(mem_kind::device, 7, 1, 3000);
  EXPECT_EQ(claims, 0u);
  w.step(50);
  EXPECT_TRUE(holds(*r1, 1, 3000));
  const auto r3 = receive(mem_kind::device, 7);
  jump_ahead(false);
  step_sender(2);
  const auto b = send(mem_kind::device, 7, 2, 6000);
  EXPECT_EQ(claims, 1u);
  w.step(50);
  EXPECT_TRUE(holds(*r2, 2, 6000));
  const auto c = send(mem_kind::device, 7, 3, 6000);
  EXPECT_EQ(claims, 2u);
  w.step(50);
  EXPECT_TRUE(holds(*r3, 3, 6000));
  step_sender(NEVER);
  expect_clean();
}

class devices_made_again : public preposted_receives {
 protected:
  // A receive, and a send that finds it.
  void claim_one(unsigned seed) {
    const auto there = receive(mem_kind::device, 7);
    step_sender();
    const auto here = send(mem_kind::device, 7, seed, 3000);
    EXPECT_EQ(claims, seed);
    w.step(50);
    EXPECT_TRUE(holds(*there, seed, 3000));
  }
};

TEST_F(devices_made_again, of_the_receiver__what_it_tells_is_newer_than_all_that_was_heard) {
  encourage();
  claim_one(1);
  claim_one(2);
  w[1].make_device();
  encourage();
  claim_one(3);
  expect_clean();
}

TEST_F(devices_made_again, of_the_sender__it_claims) {
  encourage();
  claim_one(1);
  claim_one(2);
  w[0].make_device();
  claim_one(3);
  expect_clean();
}
