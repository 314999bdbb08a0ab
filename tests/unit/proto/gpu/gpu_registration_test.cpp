// GPU memory over a network that reads it, if it can be registered: whatever the card refuses goes
// another way, arrives all the same, and nothing stays registered. The fake fabric ends the test
// when it is given GPU memory that is not registered, and when something is deregistered twice.
#include <gtest/gtest.h>

#include <cerrno>

#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/unit/proto/gpu_registration.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace mem = lci::mem;
namespace proto = lci::proto;
using lci::mem::mem_kind;
using lci::mem::rung;

namespace {

struct refusal {
  const char* name;
  choice which;
};
const refusal REFUSALS[] = {
    {"none", [](int, std::uint64_t) { return false; }},
    {"all", [](int, std::uint64_t) { return true; }},
    {"at_rank_0", [](int rank, std::uint64_t) { return rank == 0; }},
    {"at_rank_1", [](int rank, std::uint64_t) { return rank == 1; }},
    {"every_second",
     [](int rank, std::uint64_t n) { return (n + static_cast<unsigned>(rank)) % 2 == 0; }},
    {"every_third", [](int, std::uint64_t n) { return n % 3 == 0; }},
};

struct fabric_case {
  std::string name;
  gpu_options options;
};

std::vector<fabric_case> fabric_cases() {
  std::vector<fabric_case> all;
  for (const refusal& one : REFUSALS)
    for (const bool maps : {false, true})
      for (const bool is_registered : {false, true})
        for (const bool is_refusing : {false, true}) {
          fabric_case c{std::string(one.name) + (maps ? "_mapped" : "_apart") +
                            (is_registered ? "_registered" : "_on_the_fly") +
                            (is_refusing ? "_with_retries" : ""),
                        options_of(one.which, maps)};
          c.options.registers_buffers = is_registered;
          if (is_refusing) {
            c.options.sim.refuse_one_in = 3;
            c.options.sim.connect_polls = 5;
            c.options.sim.depth = 4;
          }
          all.push_back(c);
        }
  for (std::size_t i = 0, n = all.size(); i < n; i += 3) {
    fabric_case c = all[i];
    c.name += "_with_keys";
    c.options.sim.needs_keys = true;
    c.options.sim.packets = sim_packets::own;
    c.options.sim.caps.max_inject = 88;
    all.push_back(c);
  }
  return all;
}

class gpu_registration : public testing::TestWithParam<fabric_case> {};

std::uint64_t copies(gpu_world& w) { return w.gpu(0).copies() + w.gpu(1).copies(); }

}  // namespace

INSTANTIATE_TEST_SUITE_P(sim, gpu_registration, testing::ValuesIn(fabric_cases()),
                         [](const auto& of) { return of.param.name; });

TEST_P(gpu_registration, every_operation_kind_and_size__arrives_and_leaves_nothing_registered) {
  gpu_world w(GetParam().options);
  expect_each_arrives(w, {0, 1, 8000, 8193, 65'537});
}

TEST_P(gpu_registration, to_itself__arrives) {
  gpu_world w(GetParam().options);
  expect_each_arrives(w, {1, 8193, 65'537}, 0);
}

TEST_P(gpu_registration, many_at_once__all_complete) {
  gpu_options options = GetParam().options;
  options.is_tight = true;
  gpu_world w(options);
  expect_many_complete(w, 4);
}

// ---- which way ----

TEST(gpu_registration_way, registered_memory__is_moved_by_the_network_alone) {
  for (const bool is_registered : {false, true}) {
    gpu_options options = options_of(REFUSALS[0].which, true);
    options.registers_buffers = is_registered;
    gpu_world w(options);
    for_each_transfer(
        [&](verb what, mem_kind near, mem_kind far) { run_one(w, what, near, far, 20'000); });
    EXPECT_EQ(copies(w), 0u);
  }
}

// The answer of the receiver says where its memory is, so nobody looks at its registration, which
// the sender's process may have to learn of first. What a GPU copies is looked up, which shows
// that the looks are counted.
TEST(gpu_registration_way, rendezvous_that_the_network_reads__looks_nothing_up) {
  for (const bool is_by_network : {true, false}) {
    gpu_options options = options_of(REFUSALS[is_by_network ? 0 : 1].which, true);
    gpu_world w(options);
    for (const mem_kind far : {mem_kind::host, mem_kind::device}) {
      const std::uint64_t before = w.sim.counters().looks;
      run_one(w, verb::send, mem_kind::device, far, 100'000);
      if (is_by_network)
        EXPECT_EQ(w.sim.counters().looks, before);
      else
        EXPECT_NE(w.sim.counters().looks, before);
    }
    EXPECT_EQ(copies(w) == 0, is_by_network);
  }
}

TEST(gpu_registration_way, refusal_of_one_buffer__is_for_that_operation_only) {
  for (const verb what : VERBS) {
    const mem_kind far = what == verb::active_message ? mem_kind::host : mem_kind::device;
    gpu_world w(options_of([](int, std::uint64_t n) { return n == 1; }));
    run_one(w, what, mem_kind::device, far, 20'000);
    const std::uint64_t staged = copies(w);
    EXPECT_NE(staged, 0u) << name_of(what);
    // The other end was not asked where one end was enough to know.
    run_one(w, what, mem_kind::device, far, 20'000);
    run_one(w, what, mem_kind::device, far, 20'000);
    const std::uint64_t before = copies(w);
    run_one(w, what, mem_kind::device, far, 20'000);
    EXPECT_EQ(copies(w), before) << name_of(what);
    EXPECT_TRUE(w.thrown.empty()) << w.errors();
  }
}

// Each of the first buffers in turn is refused, while three operations are under way.
TEST(gpu_registration_way, refusal_of_the_nth_buffer__harms_no_other) {
  for (const int rank : {0, 1})
    for (std::uint64_t nth = 1; nth < 8; ++nth) {
      gpu_world w(options_of([=](int at, std::uint64_t n) { return at == rank && n == nth; }));
      exchanges all;
      for_each_transfer([&](verb what, mem_kind near, mem_kind far) {
        all.push_back(std::make_unique<exchange>(w, what, near, far, 20'000));
        all.back()->start();
        if (all.size() % 3 == 0) w.step(20);
      });
      w.step(300);
      for (const auto& one : all) one->expect_good();
      EXPECT_TRUE(w.thrown.empty()) << w.errors();
      w.expect_clean(0);
      w.expect_clean(1);
    }
}

TEST(gpu_registration_way, card_without_dma_buf__registers_by_address) {
  gpu_options options = options_of(nullptr);
  options.sim.registers = [](int, rung at, std::uint64_t) {
    const bool is_address = at == rung::peer_memory;
    return mem::registration_answer{0, is_address ? "" : "no such call", is_address ? 0 : ENOSYS,
                                    true};
  };
  gpu_world w(options);
  for_each_transfer(
      [&](verb what, mem_kind near, mem_kind far) { run_one(w, what, near, far, 20'000); });
  EXPECT_EQ(copies(w), 0u);
  w.expect_clean(0);
}

TEST(gpu_registration_way, staged__registers_nothing) {
  gpu_options options = options_of([](int, std::uint64_t) -> bool {
    ADD_FAILURE() << "the card was asked";
    return false;
  });
  options.way = lci::attr_gpu_path_t::staged;
  gpu_world w(options);
  for_each_transfer(
      [&](verb what, mem_kind near, mem_kind far) { run_one(w, what, near, far, 20'000); });
}

// ---- direct ----

TEST(gpu_registration_direct, registered_memory__is_direct_enough) {
  gpu_options options = options_of(REFUSALS[0].which);
  options.way = lci::attr_gpu_path_t::direct;
  gpu_world w(options);
  for_each_transfer(
      [&](verb what, mem_kind near, mem_kind far) { run_one(w, what, near, far, 20'000); });
  EXPECT_EQ(copies(w), 0u);
  EXPECT_TRUE(w.thrown.empty()) << w.errors();
}

const std::initializer_list<std::string_view> ALL_REASONS = {
    "gpu_path is direct", "bytes of memory of a fake GPU",
    "data_direct: sim: the card refuses data_direct: Cannot allocate memory [12]",
    "dma_buf: sim: the card refuses dma_buf", "peer_memory: sim: the card refuses peer_memory"};

TEST(gpu_registration_direct, refusal_where_it_is_posted__is_an_error_with_all_reasons) {
  for (const verb what : VERBS) {
    gpu_options options = options_of([](int rank, std::uint64_t) { return rank == 0; });
    options.way = lci::attr_gpu_path_t::direct;
    gpu_world w(options);
    exchange one(w, what, mem_kind::device,
                 what == verb::active_message ? mem_kind::host : mem_kind::device, 20'000);
    EXPECT_TRUE(throws_with<lci::backend_error>([&] { one.start(); }, ALL_REASONS))
        << name_of(what);
    w.step(20);
    w.expect_clean(0);
    EXPECT_EQ(w[1].queues->host.rendezvous.recvs.size(), 0u);
  }
}

TEST(gpu_registration_direct, refusal_where_a_region_is_registered__is_an_error) {
  gpu_options options = options_of([](int rank, std::uint64_t) { return rank == 1; });
  options.way = lci::attr_gpu_path_t::direct;
  gpu_world w(options);
  EXPECT_TRUE(throws_with<lci::backend_error>(
      [&] { const exchange one(w, verb::put, mem_kind::device, mem_kind::device, 20'000); },
      ALL_REASONS));
  w.expect_clean(1);
}

TEST(gpu_registration_direct, refusal_where_it_is_received__is_heard_at_both_ends) {
  gpu_options options = options_of([](int rank, std::uint64_t) { return rank == 1; });
  options.way = lci::attr_gpu_path_t::direct;
  gpu_world w(options);
  for (const mem_kind near : {mem_kind::host, mem_kind::device}) {
    w.thrown.clear();
    w.heard.assign(2, 0);
    exchange one(w, verb::send, near, mem_kind::device, 20'000);
    one.start();
    w.step(50);
    expect_both_heard(w, one);
    for (const std::string_view text : ALL_REASONS)
      EXPECT_NE(w.errors().find(text), std::string::npos) << text << "\n" << w.errors();
    w.expect_clean(0);
    w.expect_clean(1);
  }
}

// ---- peers that die ----

TEST(gpu_registration_fault, peer_dies_at_every_step__the_survivor_keeps_no_registration) {
  for (const verb what : VERBS)
    for (const int victim : {0, 1}) {
      // A receiver that dies takes the buffers of its messages along, which looks like a leak here.
      if (what == verb::active_message && victim == 1) continue;
      bool was_over = false;
      for (int steps = 0; !was_over && steps < 200; ++steps) {
        gpu_options options = options_of(REFUSALS[steps % 3 == 0 ? 0 : 4].which);
        options.gpu.seed = static_cast<std::uint64_t>(steps) + 1;
        gpu_world w(options);
        const mem_kind far = what == verb::active_message ? mem_kind::host : mem_kind::device;
        exchanges all;
        for (int i = 0; i < 3; ++i) {
          all.push_back(std::make_unique<exchange>(w, what, mem_kind::device, far, 20'000));
          all.back()->start();
        }
        for (int i = 0; i < steps; ++i) w.step_one(i % 2);
        was_over = are_over(all);
        w.kill(victim);
        w.step(100);
        SCOPED_TRACE(std::string(name_of(what)) + ", victim " + std::to_string(victim) + " after " +
                     std::to_string(steps));
        w.expect_clean(1 - victim);
        if (HasFailure()) return;
      }
      EXPECT_TRUE(was_over) << name_of(what);
    }
}
