// Networks that need keys: every buffer is registered for as long as it is used, receivers say
// their targets, and what cannot be registered goes through slots. The fake fabric ends the test
// when the network is given host memory that is not registered, or that is deregistered under it.
#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "lci/proto/host/raw.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/unit/proto/gpu_world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;
namespace wire = lci::proto::wire;
using lci::mem::mem_kind;

namespace {

gpu_options card() {
  gpu_options options;
  options.sim = card_options();
  return options;
}

// From now on the n-th registration of host memory at `rank` is refused; counts refusals.
std::shared_ptr<int> refuse(gpu_world& w, int rank, int nth) {
  auto refusals = std::make_shared<int>(0);
  w.sim.change([=](sim_options& o) {
    o.refuses_host = [=, seen = std::make_shared<int>(0)](int at, std::uint64_t) {
      if (at != rank || ++*seen != nth) return false;
      ++*refusals;
      return true;
    };
  });
  return refusals;
}

void finish(gpu_world& w, exchange& one) {
  EXPECT_TRUE(w.step_until([&] { return one.is_over(); })) << one.text();
  w.step_until([&] {
    return w[0].queues->is_drained() && w[1].queues->is_drained() && !w[0].core.is_busy() &&
           !w[1].core.is_busy();
  });
  one.expect_good();
}

}  // namespace

TEST(keys, every_operation_of_host_memory__arrives_and_leaves_nothing_registered) {
  for (const bool is_registered : {false, true})
    for (const int to : {0, 1}) {
      gpu_options options = card();
      options.registers_buffers = is_registered;
      gpu_world w(options);
      for (const std::size_t size : {1, 100, 8000, 8193, 65'537, 300'001})
        for (const verb what : VERBS) {
          exchange one(w, what, mem_kind::host, mem_kind::host, size, 0, to);
          one.start();
          finish(w, one);
        }
      EXPECT_TRUE(w.thrown.empty()) << w.errors();
      w.expect_clean(0);
      w.expect_clean(1);
      EXPECT_GE(w.sim.counters().told, 6u) << "no rendezvous was told its target";
    }
}

TEST(keys, network_without_keys__is_told_no_targets) {
  gpu_world w({});
  exchange one(w, verb::send, mem_kind::host, mem_kind::host, 100'000);
  one.start();
  finish(w, one);
  EXPECT_EQ(w.sim.counters().told, 0u);
}

// Whether an operation of rank 0 with rank 1 registers host memory at that rank. Memory that puts
// and gets name is the program's, which has registered it, and what is staged passes through slots.
static bool registers(verb what, mem_kind near, mem_kind far, int rank) {
  const bool is_from_host = near == mem_kind::host;
  const bool is_to_host = far == mem_kind::host || what == verb::active_message;
  if (what == verb::get)
    return rank == 0 ? is_from_host && is_to_host : !is_from_host && is_to_host;
  if (rank == 0) return is_from_host;
  return is_from_host && is_to_host && (what == verb::send || what == verb::active_message);
}

// A registration that fails harms nobody: a post throws and has changed nothing, a message that has
// been asked for comes through slots.
static void refuse_one(verb what, mem_kind near, mem_kind far, int rank, bool is_tight) {
  gpu_options options = card();
  options.is_tight = is_tight;
  gpu_world w(options);
  exchange one(w, what, near, far, 30'000);
  const auto refusals = refuse(w, rank, 1);
  bool has_thrown = false;
  try {
    one.start();
    finish(w, one);
  } catch (const lci::backend_error&) {
    has_thrown = true;
    w.step(50);
  }
  EXPECT_TRUE(w.thrown.empty()) << w.errors();
  EXPECT_EQ(*refusals, registers(what, near, far, rank) ? 1 : 0) << one.text();
  EXPECT_EQ(has_thrown, rank == 0 && *refusals != 0) << one.text();
  w.expect_clean(0);
  w.expect_clean(1);
}

TEST(keys, refusal_of_a_buffer__throws_from_the_post_or_costs_a_copy) {
  for (const verb what : VERBS)
    for (const mem_kind near : {mem_kind::host, mem_kind::device})
      for (const mem_kind far : {mem_kind::host, mem_kind::device})
        for (const int rank : {0, 1})
          for (const bool is_tight : {false, true}) refuse_one(what, near, far, rank, is_tight);
}

// A large message whose pieces wait for slots at both ends.
TEST(keys, refusals_of_many_at_once__all_arrive) {
  for (const verb what : {verb::send, verb::active_message, verb::get}) {
    gpu_options options = card();
    options.is_tight = true;
    gpu_world w(options);
    const mem_kind near = what == verb::get ? mem_kind::device : mem_kind::host;
    std::vector<std::unique_ptr<exchange>> all;
    for (int i = 0; i < 12; ++i)
      all.push_back(std::make_unique<exchange>(w, what, near, mem_kind::host,
                                               10'000 + 3'000 * static_cast<std::size_t>(i)));
    w.sim.change(
        [](sim_options& o) { o.refuses_host = [](int rank, std::uint64_t) { return rank == 1; }; });
    for (const auto& one : all) one->start();
    for (const auto& one : all) finish(w, *one);
    EXPECT_TRUE(w.thrown.empty()) << w.errors();
    w.expect_clean(0);
    w.expect_clean(1);
  }
}

// No registration and no slots either.
TEST(keys, message_that_can_come_in_no_way__fails_at_both_ends) {
  for (const verb what : {verb::send, verb::active_message}) {
    gpu_options options = card();
    options.is_starved = true;
    gpu_world w(options);
    refuse(w, 1, 1);
    exchange lost(w, what, mem_kind::host, mem_kind::host, 30'000);
    lost.start();
    w.step();
    EXPECT_NE(w.errors().find("no memory for a staging buffer"), std::string::npos) << w.errors();
    EXPECT_EQ(w.heard[0], 1u) << w.errors();
    EXPECT_EQ(w.heard[1], 1u) << w.errors();
    EXPECT_TRUE(lost.near_.seen.empty());
    EXPECT_TRUE(lost.far_.seen.empty());
    for (const int rank : {0, 1}) {
      EXPECT_TRUE(w[rank].queues->is_drained()) << rank;
      EXPECT_EQ(w.sim.registrations(rank), 0u) << rank;
    }
    exchange next(w, what, mem_kind::host, mem_kind::host, 30'000);
    next.start();
    finish(w, next);
  }
}

TEST(keys, full_region_table__fails_the_message_at_both_ends) {
  gpu_world w(card());
  std::byte byte{};
  try {
    for (;;) w[1].core.regions.insert(&byte, 1);
  } catch (const lci::argument_error&) {
  }
  exchange lost(w, verb::send, mem_kind::host, mem_kind::host, 30'000);
  lost.start();
  w.step();
  EXPECT_NE(w.errors().find("registrations of this process are in use"), std::string::npos);
  EXPECT_NE(w.errors().find("rank 1 cannot take a message"), std::string::npos) << w.errors();
  EXPECT_TRUE(lost.near_.seen.empty());
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(w[rank].queues->is_drained()) << rank;
    EXPECT_EQ(w.sim.registrations(rank), 0u) << rank;
  }
}

// ---- targets that are wrong ----

// The network refuses them, and the transfer ends alone.
TEST(keys, rtr_with_a_target_of_nothing__fails_that_message) {
  for (const bool is_staged : {false, true}) {
    gpu_world w(card());
    std::vector<std::byte> data = pattern(100'000);
    recorder sender;
    auto out = w[0].outgoing(1, data.data(), data.size(), w[1].engine_rcomp(), 5, &sender);
    while (lci::error_t(proto::start_message(out)).is_retry()) w.step(1);
    wire::rtr body;
    body.sender = w[0].queues->host.rendezvous.sends.name_at(0);
    body.at = {64, 12345};
    if (is_staged) body.through = {1000, 4};
    proto::on_rtr(w[0].queues->host, 1, body);
    w.step(50);
    EXPECT_TRUE(sender.seen.empty());
    EXPECT_NE(w.errors().find("outside the registration"), std::string::npos) << w.errors();
    EXPECT_EQ(w[0].queues->host.rendezvous.sends.size(), 0u);
    EXPECT_TRUE(w[0].queues->gpu.staged().is_quiet());
    EXPECT_EQ(w.sim.registrations(0), 0u);
  }
}

TEST(keys, rtr_with_slots_of_no_sense__fails_without_writing) {
  for (const wire::slots cut : {wire::slots{0, 1}, wire::slots{2048, 5},
                                wire::slots{(16u << 20) / 4 + 1, 4}, wire::slots{~0u, 4}}) {
    gpu_world w(card());
    std::vector<std::byte> data = pattern(100'000);
    recorder sender;
    auto out = w[0].outgoing(1, data.data(), data.size(), w[1].engine_rcomp(), 5, &sender);
    while (lci::error_t(proto::start_message(out)).is_retry()) w.step(1);
    wire::rtr body;
    body.sender = w[0].queues->host.rendezvous.sends.name_at(0);
    body.at = {64, 12345};
    body.through = cut;
    proto::on_rtr(w[0].queues->host, 1, body);
    w.step(50);
    EXPECT_NE(w.errors().find("slots are invalid"), std::string::npos) << w.errors();
    EXPECT_EQ(w.sim.counters().told, 0u);
    EXPECT_EQ(w[0].queues->host.rendezvous.sends.size(), 0u);
    EXPECT_EQ(w.sim.registrations(0), 0u);
  }
}

// ---- owners ----

TEST(keys, record_of_the_raw_layer__gives_its_registration_back) {
  gpu_world w(card());
  proto::raw_net raw(w[0].queues->engine());
  std::vector<std::byte> buffer(100);
  for (const bool completes : {false, true}) {
    proto::raw_net::record* const record = raw.make_record(lci::net_opcode_t::SEND, 1, nullptr);
    record->key =
        proto::key_for(w[0].queues->host, 1, buffer.data(), buffer.size(), mem_kind::host);
    EXPECT_EQ(w.sim.registrations(0), 1u);
    completes ? raw.complete(record) : raw.drop(record);
    EXPECT_EQ(w.sim.registrations(0), 0u);
  }
}

TEST(network_key, of_the_arena_and_of_nothing__is_no_registration) {
  gpu_world w(card());
  lci::mem::packet* const packet = w[0].pool.get();
  const proto::network_key arena =
      proto::key_for(w[0].queues->host, 1, packet->payload(), 100, mem_kind::host);
  const proto::network_key none = proto::key_for(w[0].queues->host, 1, nullptr, 0, mem_kind::host);
  EXPECT_EQ(arena.get(), 0u);
  EXPECT_EQ(none.get(), 0u);
  EXPECT_EQ(w.sim.registrations(0), 0u);
  w[0].pool.put(packet);
}

TEST(keys_guards, of_registrations_that_are_left__fire) {
  gpu_world w(card());
  std::vector<std::byte> buffer(100);
  {
    const proto::network_key left =
        proto::key_for(w[0].queues->host, 1, buffer.data(), buffer.size(), mem_kind::host);
    EXPECT_TRUE(must_fire([&] { w.expect_clean(0); }, "registrations of rank 0"));
  }
  w.expect_clean(0);
}
