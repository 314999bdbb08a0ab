// Peers that die and copies that fail, at every step of every protocol of GPU memory: each end
// hears of it, nothing stays behind, and what is under way beside it arrives.
#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/unit/proto/gpu_world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;
using lci::mem::mem_kind;

namespace {

struct fault_case {
  verb what;
  mem_kind near, far;
  bool maps;
  lci::attr_gpu_path_t way;
  std::size_t size;
  bool is_offered = false;  // the sender knows the receive before it sends
  bool by_cpu = false;      // the processor copies, every other time
};

std::vector<fault_case> fault_cases() {
  std::vector<fault_case> all;
  for (const verb what : VERBS)
    for (const int kinds : {1, 2, 3})
      for (const bool maps : {false, true})
        for (const lci::attr_gpu_path_t way :
             {lci::attr_gpu_path_t::auto_select, lci::attr_gpu_path_t::staged})
          for (const std::size_t size : {3000, 20'000}) {
            const mem_kind near = (kinds & 1) != 0 ? mem_kind::device : mem_kind::host;
            const mem_kind far = (kinds & 2) != 0 ? mem_kind::device : mem_kind::host;
            if (what == verb::active_message && far == mem_kind::device) continue;
            // Only GPU memory at both ends goes another way if it may, and only where it is mapped.
            if (way == lci::attr_gpu_path_t::auto_select && (!maps || kinds != 3)) continue;
            const bool is_sample = what == verb::send && kinds == 3 && maps;
            // A sanitizer gets every protocol, and large messages of one of them.
            if (lci::test::IS_SANITIZED && size > 3000 && !is_sample) continue;
            all.push_back({what, near, far, maps, way, size});
            if (what == verb::send && way == lci::attr_gpu_path_t::auto_select)
              all.push_back({what, near, far, maps, way, size, true});
          }
  for (const verb what : {verb::send, verb::active_message, verb::put_signal})
    for (const mem_kind near : {mem_kind::host, mem_kind::device})
      for (const mem_kind far : {mem_kind::host, mem_kind::device}) {
        if (near == far && near == mem_kind::host) continue;
        if (what == verb::active_message && far == mem_kind::device) continue;
        all.push_back({what, near, far, true, lci::attr_gpu_path_t::auto_select, 500, false, true});
      }
  return all;
}

std::string name_of_case(const fault_case& c) {
  const auto kind = [](mem_kind k) { return k == mem_kind::device ? "_gpu" : "_host"; };
  return std::string(name_of(c.what)) + kind(c.near) + kind(c.far) +
         (c.maps ? "_mapped" : "_apart") +
         (c.way == lci::attr_gpu_path_t::auto_select ? "_direct_" : "_staged_") +
         std::to_string(c.size) + (c.is_offered ? "_offered" : "") + (c.by_cpu ? "_by_cpu" : "");
}

gpu_options faulty_options(const fault_case& c) {
  gpu_options o;
  o.sim.maps_arenas = c.maps;
  o.sim.late = true;
  o.way = c.way;
  o.is_tight = true;
  o.gpu.max_delay = 1;
  o.by_cpu = c.by_cpu;
  o.gpu.refuse_hand_one_in = 2;
  return o;
}

// Every operation and every pair of kinds of memory, by one way each.
bool is_in_sample(const fault_case& c) {
  const bool is_direct = c.way == lci::attr_gpu_path_t::auto_select;
  return c.by_cpu || lci::test::IS_SANITIZED ||
         (c.size == 3000 && (is_direct ? !c.is_offered : c.maps == (c.what == verb::put)));
}
std::vector<fault_case> fault_cases_that_are(bool in_sample) {
  std::vector<fault_case> all = fault_cases();
  std::erase_if(all, [in_sample](const fault_case& c) { return is_in_sample(c) != in_sample; });
  return all;
}

class gpu_fault : public testing::TestWithParam<fault_case> {};

}  // namespace

INSTANTIATE_TEST_SUITE_P(sim, gpu_fault, testing::ValuesIn(fault_cases_that_are(true)),
                         [](const auto& of) { return name_of_case(of.param); });
INSTANTIATE_TEST_SUITE_P(every_sim, gpu_fault, testing::ValuesIn(fault_cases_that_are(false)),
                         [](const auto& of) { return name_of_case(of.param); });

// The last round kills after the end, so every step before it was met.
TEST_P(gpu_fault, peer_dies_at_every_step__the_survivor_is_told_once_and_left_clean) {
  const fault_case& c = GetParam();
  for (const int victim : {0, 1}) {
    // A receiver that dies takes the buffers of its messages along, which looks like a leak here.
    if (lci::test::IS_SANITIZED && c.what == verb::active_message && victim == 1) continue;
    bool was_over = false;
    for (int steps = 0; !was_over && steps < 200; ++steps) {
      gpu_options options = faulty_options(c);
      options.gpu.seed = static_cast<std::uint64_t>(steps) * 10 + 1;
      options.ranks = 3;
      gpu_world w(options);
      const int survivor = 1 - victim;
      exchange one(w, c.what, c.near, c.far, c.size);
      exchange beside(w, verb::send, mem_kind::device, mem_kind::host, 9000, survivor, 2);
      const std::size_t regions = w[survivor].core.regions.live();
      if (c.is_offered) one.preposted();
      one.start();
      beside.start();
      for (int i = 0; i < steps; ++i) w.step_one(i % 3);
      was_over = one.is_over();
      w.kill(victim);
      w.step(100);
      SCOPED_TRACE("victim " + std::to_string(victim) + " after " + std::to_string(steps));
      EXPECT_EQ(w.heard[static_cast<std::size_t>(survivor)], 1u) << w.errors();
      EXPECT_EQ(w.failures_of(victim), w.heard[2] + 1) << w.errors();
      EXPECT_EQ(w.gpu(survivor).forgotten(), 1u);
      EXPECT_LE(one.near_.seen.size(), 1u);
      EXPECT_LE(one.far_.seen.size(), 1u);
      EXPECT_TRUE(one.here.is_guarded());
      EXPECT_TRUE(one.there.is_guarded());
      beside.expect_good();
      w.expect_clean(survivor);
      EXPECT_EQ(w[survivor].core.regions.live(), regions);
      if (HasFailure()) return;
    }
    EXPECT_TRUE(was_over);
  }
}

// Several transfers at once, one of which loses a copy. Its slots go to others meanwhile.
TEST_P(gpu_fault, copy_that_fails__is_heard_at_both_ends_and_harms_no_other_transfer) {
  const fault_case& c = GetParam();
  for (const int rank : {0, 1}) {
    bool has_failed = true;
    for (std::uint64_t nth = 1; has_failed; ++nth) {
      gpu_options options = faulty_options(c);
      options.gpu.seed = nth;
      options.gpu.max_delay = 6;
      gpu_world w(options);
      fake_gpu::settings how = options.gpu;
      how.fail_copy = nth;
      w.gpu(rank).set(how);
      exchanges all;
      for (int i = 0; i < 3; ++i) {
        all.push_back(std::make_unique<exchange>(w, c.what, c.near, c.far, c.size));
        if (c.is_offered) all.back()->preposted();
        all.back()->start();
      }
      w.step(20);
      for (int i = 0; i < 3; ++i) {
        all.push_back(std::make_unique<exchange>(w, c.what, c.near, c.far, c.size));
        if (c.is_offered) all.back()->preposted();
        all.back()->start();
        w.step(5);
      }
      w.step(250);
      has_failed = w.gpu(rank).failed() != 0;
      SCOPED_TRACE("copy " + std::to_string(nth) + " of rank " + std::to_string(rank));
      std::size_t bad = 0;
      for (const auto& one : all) {
        const bool is_near_told = !one->is_posted() || one->near_.seen.size() == 1;
        const bool is_far_told = !one->tells_far() || one->far_.seen.size() == 1;
        if (is_near_told && is_far_told && (one->tells_far() || one->is_over())) {
          one->expect_good();
          continue;
        }
        ++bad;
        const std::size_t listener =
            c.what == verb::put_signal ? static_cast<std::size_t>(rank) : 1;
        EXPECT_TRUE(is_near_told || w.heard[0] != 0) << "the caller heard nothing";
        EXPECT_TRUE(is_far_told || w.heard[listener] != 0) << "the target heard nothing";
      }
      EXPECT_EQ(bad, has_failed ? 1u : 0u) << w.errors();
      EXPECT_EQ(w.heard[0] + w.heard[1] != 0, has_failed);
      EXPECT_LE(w.heard[0], 1u) << w.errors();
      EXPECT_LE(w.heard[1], 1u) << w.errors();
      w.expect_clean(0);
      w.expect_clean(1);
      if (HasFailure()) return;
    }
  }
}

// Nothing is needed of the sender any more, only of our own GPU.
TEST(gpu_leave, of_a_sender_whose_pieces_are_all_here__leaves_the_message_whole) {
  gpu_world w({});
  fake_gpu::settings slow;
  slow.max_delay = 2000;
  w.gpu(1).set(slow);
  exchange one(w, verb::send, mem_kind::device, mem_kind::device, 9000);
  one.start();
  ASSERT_TRUE(w.step_until([&] { return !one.near_.seen.empty(); }));
  ASSERT_FALSE(w[1].queues->gpu.staged().is_quiet());
  ASSERT_TRUE(one.far_.seen.empty());
  w[0].fabric->leave();
  EXPECT_TRUE(w.step_until([&] { return w[1].core.peers.has_ended(0); }));
  EXPECT_TRUE(one.far_.seen.empty());
  EXPECT_TRUE(w.step_until([&] { return one.is_over(); }, 50'000));
  one.expect_good();
  EXPECT_EQ(w.heard[1], 0u) << w.errors();
  w.expect_clean(1);
}

// The announcement of the flag and the leave are read in one round, before the flag is looked at.
TEST(gpu_leave, of_a_sender_whose_gpu_has_set_the_flag__leaves_the_message_whole) {
  gpu_options options;
  options.sim.maps_arenas = true;
  gpu_world w(options);
  exchange one(w, verb::send, mem_kind::device, mem_kind::device, 20'000);
  one.start();
  for (int i = 0; i < 20 && w[1].queues->host.rendezvous.recvs.size() == 0; ++i) w.step_one(1);
  for (int i = 0; i < 20 && one.near_.seen.empty(); ++i) w.step_one(0);
  ASSERT_EQ(one.near_.seen.size(), 1u);
  ASSERT_EQ(w.gpu(0).flagged(), 1u);
  ASSERT_TRUE(one.far_.seen.empty());
  w[0].fabric->leave();
  w.step(20);
  ASSERT_TRUE(w[1].core.peers.has_ended(0));
  one.expect_good();
  EXPECT_EQ(w[1].queues->engine().dropped.sum(), 0);
  w.step(100);
  EXPECT_TRUE(w.thrown.empty()) << w.errors();
  w.expect_clean(0);
  w.expect_clean(1);
}

// Another thread notices the end of the rank between our look at the flag and what it brings.
TEST(gpu_leave, of_a_sender_whose_flag_is_acted_on__leaves_the_message_whole) {
  if (!has_race_points) GTEST_SKIP() << RACE_POINTS_MISSING;
  gpu_options options;
  options.sim.maps_arenas = true;
  gpu_world w(options);
  exchange one(w, verb::send, mem_kind::device, mem_kind::device, 20'000);
  one.start();
  race_hook hook(
      "flags.poll.before_act",
      [&] {
        w[1].core.peers.report(0, lci::net::peer_event::fail, "the test says so");
        w[1].queues->engine().watch.look_for_ended();
      },
      1);
  w.step(20);
  ASSERT_EQ(hook.hits(), 1);
  EXPECT_EQ(one.far_.seen.size(), 1u);
  EXPECT_TRUE(one.there.holds(one.seed));
  EXPECT_EQ(w[1].queues->engine().dropped.sum(), 0);
}

// In one of our slots, and in pieces.
TEST(gpu_leave, of_a_target_that_has_acknowledged_a_put__leaves_it_done) {
  for (const std::size_t size : {500, 20'000}) {
    gpu_options options;
    options.sim.maps_arenas = true;
    gpu_world w(options);
    exchange one(w, verb::put, mem_kind::device, mem_kind::host, size);
    one.start();
    ASSERT_TRUE(w.step_until([&] { return bool(one.there.holds(one.seed)); }));
    ASSERT_FALSE(one.is_over()) << "the ack is still to be read";
    w[0].queues->gpu.on_peer_ended(1, proto::peer_end::left);
    EXPECT_TRUE(w.step_until([&] { return one.is_over(); }));
    one.expect_good();
    exchange two(w, verb::put, mem_kind::device, mem_kind::host, size);
    two.start();
    ASSERT_TRUE(w.step_until([&] { return bool(two.there.holds(two.seed)); }));
    ASSERT_FALSE(two.is_over());
    w[0].queues->gpu.on_peer_ended(1, proto::peer_end::all_here);
    w.step(50);
    EXPECT_TRUE(two.near_.seen.empty());
    EXPECT_TRUE(w.thrown.empty()) << w.errors();
    w.expect_clean(0);
    w.expect_clean(1);
  }
}

// Nothing is needed of the target any more, only the end of our own copy.
TEST(gpu_leave, of_a_target_whose_ack_was_read_before_the_copy_ended__leaves_the_put_done) {
  gpu_options options;
  options.sim.maps_arenas = true;
  gpu_world w(options);
  fake_gpu::settings slow;
  slow.max_delay = 2000;
  w.gpu(0).set(slow);
  exchange one(w, verb::put, mem_kind::device, mem_kind::host, 500);
  one.start();
  ASSERT_TRUE(w.step_until([&] { return bool(one.there.holds(one.seed)); }));
  w.step(3);
  ASSERT_EQ(w.gpu(0).under_way(), 1u);
  for (const auto how : {proto::peer_end::left, proto::peer_end::all_here})
    w[0].queues->gpu.on_peer_ended(1, how);
  EXPECT_TRUE(w.step_until([&] { return one.is_over(); }));
  one.expect_good();
  w.expect_clean(0);
  w.expect_clean(1);
}
