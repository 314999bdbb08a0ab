// Control messages of staged transfers that are damaged, forged or repeated: dropped and counted,
// and nothing changes. And what the two ends hear of a way that does not exist.
#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "lci/proto/host/arrival.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/unit/proto/gpu_world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;
namespace wire = lci::proto::wire;
using lci::mem::mem_kind;
using wire::kind;

namespace {

class gpu_hostile : public testing::Test {
 protected:
  static gpu_options options() {
    gpu_options o;
    o.sim.maps_arenas = true;
    o.way = lci::attr_gpu_path_t::staged;
    o.is_tight = true;
    o.ranks = 3;
    return o;
  }
  // Rank `from` sends rank 1 a message of that kind.
  void tell(int from, kind what, const void* body, std::size_t size) {
    proto::single_arrival sink(w[1].queues->host);
    const std::uint32_t imm = wire::kind_imm(what);
    const auto verdict =
        sink.on_message({from, imm, static_cast<const std::byte*>(body), size, nullptr});
    EXPECT_EQ(verdict, lci::net::verdict::taken);
  }
  template <class Body>
  void tell(int from, kind what, const Body& body) {
    tell(from, what, &body, wire::length_of(body));
  }
  std::int64_t dropped() { return static_cast<std::int64_t>(w[1].queues->engine().dropped.sum()); }
  // Delivers messages of everything until the receiver in rank 1 has lent its slots.
  void begin(exchange& one) {
    one.start();
    w.step(2);
    ASSERT_FALSE(one.is_over());
  }
  void finish(exchange& one) {
    EXPECT_TRUE(w.step_until([&] { return one.is_over(); }));
    w.step(50);
    one.expect_good();
    w.expect_clean(0);
    w.expect_clean(1);
  }

  gpu_world w{options()};
};

}  // namespace

TEST_F(gpu_hostile, bodies_of_a_wrong_size__are_dropped_and_counted) {
  const std::byte bytes[64] = {};
  for (std::uint32_t number = 8; number < wire::KINDS + 6; ++number)
    for (const std::size_t size : {0, 1, 7, 9, 15, 23, 25, 39, 41, 55, 57, 63}) {
      const auto before = dropped();
      tell(0, static_cast<kind>(number), bytes, size);
      EXPECT_EQ(dropped(), before + 1) << "kind " << number << ", " << size << " bytes";
    }
  w.step(20);
  w.expect_clean(1);
}

TEST_F(gpu_hostile, names_and_places_that_are_unknown__change_nothing) {
  for (const wire::name name :
       {wire::name{}, wire::name{1, 1}, wire::name{0xffffffff, 0xffffffff}, wire::name{7, 3}}) {
    const std::uint64_t huge = ~std::uint64_t{0};
    const auto before = dropped();
    tell(0, kind::piece, wire::piece{name, name, huge});
    tell(0, kind::credit, wire::credit{name, huge});
    tell(0, kind::ack, wire::ack{name});
    tell(0, kind::restage, wire::restage{name, name});
    tell(0, kind::drop_send, wire::drop{name, 0, 0});
    tell(0, kind::drop_receive, wire::drop{name, 0, 0});
    tell(0, kind::await_flag, wire::await_flag{huge, 0, 0});
    tell(0, kind::await_flag, wire::await_flag{huge - 63, 0, 0});
    tell(0, kind::await_flag, wire::await_flag{4097, 0, 0});
    tell(0, kind::landing, wire::landing{name, name, 0, huge, 64, 0, 0, 0});
    tell(0, kind::landing, wire::landing{name, name, 0, 8, huge, 0, 0, 0});
    tell(0, kind::landing, wire::landing{name, name, 0, 8, 64, 3, 0, 0});
    EXPECT_EQ(dropped(), before + 12) << name.slot;
    // These are answered, and their answers name nothing at the other end.
    tell(0, kind::drop_send, wire::drop{name, 1, 0});
    tell(0, kind::drop_receive, wire::drop{name, 1, 0});
    tell(0, kind::put_request, wire::put_request{name, name, huge, huge, 1, 0});
    tell(0, kind::get_request, wire::get_request{name, name, huge, huge, name, huge, {}, {}});
    tell(0, kind::landing, wire::landing{name, name, 0, 8, 64, 0, 0, 0});
  }
  w.step(20);
  w.expect_clean(0);
  w.expect_clean(1);
  EXPECT_TRUE(w.thrown.empty()) << w.errors();
}

// A running transfer is bombarded with messages for its own states, from its peer and from another.
TEST_F(gpu_hostile, pieces_that_are_repeated_or_not_due__are_dropped_and_the_transfer_is_whole) {
  exchange one(w, verb::send, mem_kind::device, mem_kind::device, 20'000);
  begin(one);
  const auto before = dropped();
  std::int64_t sent = 0;
  for (std::uint32_t slot = 0; slot < 3; ++slot)
    for (std::uint32_t generation = 0; generation < 4; ++generation)
      for (const std::uint64_t index :
           {std::uint64_t{4}, std::uint64_t{9}, std::uint64_t{10}, ~std::uint64_t{0}}) {
        tell(0, kind::piece, wire::piece{{slot, generation}, {9, 9}, index});
        tell(2, kind::piece, wire::piece{{slot, generation}, {9, 9}, index % 4});
        tell(2, kind::drop_receive, wire::drop{{slot, generation}, 1, 0});
        tell(2, kind::credit, wire::credit{{slot, generation}, index});
        sent += 3;
      }
  EXPECT_EQ(dropped(), before + sent);
  finish(one);
}

TEST_F(gpu_hostile, credits_and_acks_that_are_not_due__are_dropped) {
  // Rank 1 is the sender here.
  exchange one(w, verb::put, mem_kind::device, mem_kind::device, 20'000, 1, 0);
  one.start();
  w.step(2);
  const auto before = dropped();
  std::int64_t sent = 0;
  for (std::uint32_t slot = 0; slot < 3; ++slot)
    for (std::uint32_t generation = 0; generation < 4; ++generation)
      for (const std::uint64_t index : {std::uint64_t{5}, std::uint64_t{9}, ~std::uint64_t{0}}) {
        tell(0, kind::credit, wire::credit{{slot, generation}, index});
        tell(2, kind::credit, wire::credit{{slot, generation}, 0});
        tell(2, kind::ack, wire::ack{{slot, generation}});
        tell(2, kind::drop_send, wire::drop{{slot, generation}, 1, 0});
        sent += 3;
      }
  EXPECT_EQ(dropped(), before + sent);
  finish(one);
}

// Rank 0 says where its slots are; rank 1, which has a get to serve, looks before it writes.
TEST_F(gpu_hostile, slots_that_make_no_sense__fail_that_transfer_alone) {
  test_buffer source(mem_kind::device, 20'000);
  const auto region = w[1].core.regions.insert({source.at(), source.size(), source.kind(), {}});
  std::vector<std::byte> small(4096);
  const auto slots = w[0].core.regions.insert(small.data(), small.size());
  const wire::name good{slots.slot, slots.generation};
  const std::uint64_t huge = ~std::uint64_t{0};
  std::size_t complaints = 0;
  for (const wire::slots cut :
       {wire::slots{0, 1}, wire::slots{1, 0}, wire::slots{2048, 5}, wire::slots{2049, 2},
        wire::slots{0xffffffff, 4}, wire::slots{0xffffffff, 0xffffffff}})
    for (const std::uint64_t place : {std::uint64_t{0}, huge}) {
      wire::get_request body{{5, 5}, {region.slot, region.generation}, 0, 20'000, good, place, cut,
                             {}};
      tell(0, kind::get_request, body);
      body.slots_region = {77, 77};
      tell(0, kind::get_request, body);
      complaints += 2;
    }
  w.step(60);
  EXPECT_EQ(w.heard[1], complaints) << w.errors();
  EXPECT_EQ(w.heard[0], 0u) << w.errors();
  w[1].core.regions.erase(region);
  w[0].core.regions.erase(slots);
  w.expect_clean(1);
  exchange one(w, verb::get, mem_kind::device, mem_kind::device, 20'000);
  one.start();
  finish(one);
}

// ---- ways that do not exist ----

TEST(gpu_path, direct_to_memory_that_cannot_be_mapped__is_an_error_at_both_ends) {
  for (const bool refuses_share : {false, true}) {
    gpu_options options;
    options.sim.maps_arenas = true;
    options.way = lci::attr_gpu_path_t::direct;
    (refuses_share ? options.gpu.refuses_share : options.gpu.refuses_map) = true;
    gpu_world w(options);
    exchange one(w, verb::send, mem_kind::device, mem_kind::device, 20'000);
    one.start();
    w.step(50);
    expect_both_heard(w, one);
    EXPECT_NE(w.errors().find("gpu_path is direct"), std::string::npos) << w.errors();
    // What the driver has said, at the end that has asked it.
    EXPECT_NE(w.errors().find(refuses_share ? "the fake GPU shares nothing"
                                            : "the fake GPU maps nothing of it"),
              std::string::npos)
        << w.errors();
    // The owner's driver has said it to the owner.
    const char* const reason = refuses_share
                                   ? "the memory of rank 1 cannot be shared with other processes"
                                   : "the fake GPU maps nothing of it";
    for (const verb what : {verb::put, verb::get}) {
      exchange two(w, what, mem_kind::device, mem_kind::device, 20'000);
      EXPECT_TRUE(
          throws_with<lci::backend_error>([&] { two.start(); }, {"gpu_path is direct", reason}));
    }
    w.expect_clean(0);
    w.expect_clean(1);
  }
}

// The network may learn of it later.
TEST(gpu_path, direct_to_memory_of_a_process_that_has_ended__is_a_failure_of_that_rank) {
  gpu_options options;
  options.sim.maps_arenas = true;
  options.way = lci::attr_gpu_path_t::direct;
  options.gpu.refuses_map = options.gpu.has_owner_ended = true;
  gpu_world w(options);
  for (const verb what : {verb::put, verb::get}) {
    exchange one(w, what, mem_kind::device, mem_kind::device, 20'000);
    EXPECT_TRUE(throws_with<lci::peer_failure_error>(
        [&] { one.start(); }, {"rank 1 is lost", "the fake GPU maps nothing of it"}));
  }
  exchange message(w, verb::send, mem_kind::device, mem_kind::device, 20'000);
  message.start();
  w.step(50);
  expect_both_heard(w, message);
  EXPECT_EQ(w.errors().find("gpu_path"), std::string::npos) << w.errors();
  EXPECT_NE(w.errors().find("rank 1 is lost"), std::string::npos) << w.errors();
  w.expect_clean(0);
  w.expect_clean(1);
}

TEST(gpu_path, restaging__comes_after_a_refused_mapping_and_leaves_no_registration) {
  gpu_options options;
  options.sim.maps_arenas = true;
  options.gpu.refuses_map = true;
  gpu_world w(options);
  exchange one(w, verb::send, mem_kind::device, mem_kind::device, 20'000);
  one.start();
  EXPECT_TRUE(w.step_until([&] { return one.is_over(); }));
  one.expect_good();
  EXPECT_TRUE(w.thrown.empty()) << w.errors();
  w.expect_clean(0);
  w.expect_clean(1);
}

TEST(gpu_domain, managed_memory__is_found_but_not_handled) {
  const fake_memory managed(100, 0, true);
  const lci::mem::memory_place place = lci::mem::find_place(managed.at() + 99);
  EXPECT_FALSE(place.is_handled);
  ASSERT_NE(place.domain, nullptr);
  EXPECT_NE(place.domain->refusal(managed.at()).find("managed"), std::string::npos);
  EXPECT_EQ(lci::mem::find_place(managed.at() + 100).domain, nullptr);
}

// ---- what is short, or gone ----

TEST(gpu_staging_short, without_any_memory__both_ends_of_a_message_hear_of_it) {
  gpu_options options;
  options.is_starved = true;
  gpu_world w(options);
  exchange one(w, verb::send, mem_kind::device, mem_kind::device, 20'000);
  one.start();
  w.step(50);
  expect_both_heard(w, one);
  for (int r : {0, 1}) {
    EXPECT_TRUE(w[r].queues->is_quiet());
    EXPECT_EQ(w[r].queues->host.rendezvous.sends.size(), 0u);
  }
}

TEST(gpu_put, to_a_peer_that_has_just_died__gives_its_packet_back) {
  gpu_world w({});
  test_buffer target(mem_kind::device, 3000);
  std::vector<std::byte> data = pattern(3000);
  const auto region = w[1].core.regions.insert({target.at(), 3000, target.kind(), {}});
  auto out = w[0].outgoing(1, data.data(), data.size(), 0, 0);
  out.remote = {region.slot, region.generation};
  out.there = w[0].fabric->check_remote(1, out.remote);
  w.kill(1);
  EXPECT_EQ(proto::start_put(out), lci::errorcode_t::fatal);
  w.step(20);
  w.expect_clean(0);
}

TEST(gpu_flags, that_a_dead_peer_announces__are_not_waited_for) {
  gpu_options options;
  options.sim.maps_arenas = true;
  gpu_world w(options);
  proto::gpu::flag_word* const word = w[0].shared.gpu.flags.take();
  ASSERT_NE(word, nullptr);
  const wire::await_flag body{w[0].shared.gpu.flags.place_of(word), 0, 0};
  w[1].queues->gpu.flags().on_await(0, body);
  EXPECT_TRUE(w[1].core.is_busy());
  w[1].core.peers.report(0, lci::net::peer_event::fail, "it died");
  w.step(5);
  EXPECT_FALSE(w[1].core.is_busy());
  // What it said before may be heard by another device of ours after its death was.
  w[1].queues->gpu.flags().on_await(0, body);
  EXPECT_FALSE(w[1].core.is_busy());
  proto::gpu::flag_words::give(word);
}

TEST(gpu_flags, that_a_peer_has_set_before_its_end__are_acted_on) {
  for (const auto how : {lci::net::peer_event::leave, lci::net::peer_event::fail}) {
    gpu_options options;
    options.sim.maps_arenas = true;
    gpu_world w(options);
    proto::gpu::flag_word* const word = w[0].shared.gpu.flags.take();
    ASSERT_NE(word, nullptr);
    const wire::await_flag body{w[0].shared.gpu.flags.place_of(word), 0, 0};
    w[1].queues->gpu.flags().on_await(0, body);
    word->store(wire::FLAG_SET, std::memory_order_relaxed);
    w[1].core.peers.report(0, how, "it has gone");
    w[1].queues->engine().watch.look_for_ended();
    EXPECT_TRUE(w[1].core.is_busy());
    w.step(5);
    EXPECT_EQ(word->load(std::memory_order_relaxed), 0u);
    EXPECT_FALSE(w[1].core.is_busy());
  }
}
