// Two networks that look like one, on two fake networks: who takes which, and what stays true.
#include "lci/net/route.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <thread>
#include <utility>

#include "lci/errors.hpp"
#include "tests/contract/group.hpp"
#include "tests/support/sim/sim.hpp"

namespace lci::test {
namespace {

using net::way;

sim_options inner_options() {
  sim_options options;
  options.caps.needs_keys = false;
  options.caps.max_send = 4096;
  return options;
}

// As a card is: keys, late completions, first contact.
sim_options card_options() {
  sim_options options{.packets = sim_packets::own, .late = true, .connect_polls = 3};
  options.needs_keys = true;
  options.caps.max_inject = 88;
  options.caps.max_rma = 1 << 20;
  options.caps.write_with_immediate = false;
  return options;
}

// Ranks 0 and 1 on one host, 2 and 3 on another.
struct two_hosts {
  explicit two_hosts(const sim_options& inner = inner_options(),
                     const sim_options& between_hosts = card_options())
      : hosts{sim_world(4, inner), sim_world(4, inner)},
        between(4, between_hosts),
        ranks(4, 1, [this](int rank, const net::fabric_config& config) {
          std::vector<way> ways;
          for (int to = 0; to < 4; ++to)
            ways.push_back(are_together(rank, to) ? way::local : way::remote);
          return std::make_unique<net::routed_fabric>(host_of(rank).open(rank, config),
                                                      between.open(rank, config), std::move(ways));
        }) {}
  static bool are_together(int a, int b) { return a / 2 == b / 2; }
  sim_world& host_of(int rank) { return hosts[static_cast<std::size_t>(rank / 2)]; }
  void send(int from, int to, std::uint32_t imm) {
    ranks.post([&] { return ranks.at(from).to().send_inline(to, imm, nullptr, 0, &imm, 4); });
  }

  std::array<sim_world, 2> hosts;
  sim_world between;
  group ranks;
};

TEST(route, each_pair__has_one_network) {
  two_hosts w;
  std::uint64_t inside = 0, outside = 0;
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      w.send(from, to, static_cast<std::uint32_t>(16 * from + to));
      ++(two_hosts::are_together(from, to) ? inside : outside);
      EXPECT_EQ(w.hosts[0].counters().messages + w.hosts[1].counters().messages, inside);
      EXPECT_EQ(w.between.counters().messages, outside);
    }
  }
  for (int to = 0; to < 4; ++to) {
    recorder& seen = w.ranks.at(to).seen();
    ASSERT_TRUE(w.ranks.until([&] { return seen.arrived() == 4; }, "all messages"));
    for (const seen_message& m : seen.messages())
      EXPECT_EQ(m.imm, static_cast<std::uint32_t>(16 * m.rank + to));
  }
}

// What differs is told by peer, and what is the same for all is what the lesser one has.
TEST(route, capabilities__are_those_of_the_way) {
  two_hosts w;
  const net::fabric& fabric = *w.ranks.at(1).fabric;
  EXPECT_EQ(fabric.caps_of(0).max_inject, 64u);
  EXPECT_EQ(fabric.caps_of(1).max_send, 4096u);
  EXPECT_TRUE(fabric.caps_of(0).write_with_immediate);
  EXPECT_FALSE(fabric.caps_of(0).needs_keys);
  for (const int far : {2, 3}) {
    EXPECT_EQ(fabric.caps_of(far).max_inject, 88u);
    EXPECT_EQ(fabric.caps_of(far).max_send, 8256u);
    EXPECT_FALSE(fabric.caps_of(far).write_with_immediate);
    EXPECT_TRUE(fabric.caps_of(far).needs_keys);
  }
  EXPECT_EQ(fabric.caps().max_inject, 64u);
  EXPECT_EQ(fabric.caps().max_send, 4096u);
  EXPECT_EQ(fabric.caps().max_rma, 1u << 20);
  EXPECT_FALSE(fabric.caps().write_with_immediate);
  EXPECT_TRUE(fabric.caps().needs_keys);
  EXPECT_EQ(fabric.name(), "sim");
}

TEST(route, network_without_a_table__answers_the_same_for_every_peer) {
  sim_world world(2);
  member m;
  net::fabric_config config;
  config.arena = &m.arena;
  config.regions = &m.regions;
  const auto fabric = world.open(0, config);
  EXPECT_EQ(&fabric->caps_of(1), &fabric->caps());
}

TEST(route, order__holds_for_each_peer_whatever_the_networks_do) {
  sim_options inner = inner_options(), card = card_options();
  inner.max_delay_polls = card.max_delay_polls = 5;
  inner.refuse_one_in = card.refuse_one_in = 4;
  two_hosts w(inner, card);
  std::mt19937 rng(7);
  std::array<std::array<std::uint32_t, 4>, 4> sent{};
  for (int i = 0; i < 3000; ++i) {
    const auto from = rng() % 4, to = rng() % 4;
    w.send(static_cast<int>(from), static_cast<int>(to), sent[from][to]++);
  }
  for (std::size_t to = 0; to < 4; ++to) {
    recorder& seen = w.ranks.at(static_cast<int>(to)).seen();
    const std::uint32_t all = sent[0][to] + sent[1][to] + sent[2][to] + sent[3][to];
    ASSERT_TRUE(w.ranks.until([&] { return seen.arrived() == all; }, "all messages"));
    std::array<std::uint32_t, 4> next{};
    for (const seen_message& m : seen.messages())
      EXPECT_EQ(m.imm, next[static_cast<std::size_t>(m.rank)]++) << "from " << m.rank;
  }
}

// One registration serves both networks, and each operation ends once.
TEST(route, one_registration__is_good_for_peers_on_both_networks) {
  two_hosts w;
  std::vector<std::byte> there(4096);
  const std::vector<std::byte> here = pattern(4096, 3);
  std::string why_not;
  const std::uint64_t key = w.ranks.at(0).fabric->register_region(
      const_cast<std::byte*>(here.data()), here.size(), mem::mem_kind::host, why_not);
  EXPECT_NE(key, 0u);
  for (const int to : {1, 2}) {
    std::fill(there.begin(), there.end(), std::byte{0});
    const net::remote_key name = w.ranks.at(to).expose(there.data(), there.size());
    w.ranks.learn(0, to, name);
    op_fate fate;
    net::net_op op;
    op.rank = to;
    op.buffer = const_cast<std::byte*>(here.data());
    op.size = here.size();
    op.local_key = key;
    op.remote = name;
    op.context = &fate;
    const errorcode_t answer = w.ranks.post([&] { return w.ranks.at(0).to().put(op); });
    w.ranks.settle();
    EXPECT_EQ(fate.signals(), answer == errorcode_t::posted ? 1 : 0);
    EXPECT_EQ(there, here) << "to " << to;
    // What is sent along is for those who need it; the fabric asks nobody else.
    EXPECT_NE(w.ranks.at(to).fabric->target_of(name).key, 0u);
    w.ranks.at(to).hide(name);
    EXPECT_EQ(w.between.registrations(to), 0u);
  }
  EXPECT_EQ(w.between.registrations(0), 1u);
  w.ranks.at(0).fabric->deregister_region(key);
  EXPECT_EQ(w.between.registrations(0), 0u);
}

TEST(route, death_on_one_network__leaves_the_other_alone) {
  two_hosts w;
  for (int to = 0; to < 4; ++to) w.send(0, to, 1);
  w.ranks.settle();
  w.between.kill(3);
  recorder& seen = w.ranks.at(0).seen();
  ASSERT_TRUE(w.ranks.until([&] { return !seen.gone().empty(); }, "the news of rank 3"));
  w.host_of(1).kill(1);
  ASSERT_TRUE(w.ranks.until([&] { return seen.gone().size() == 2; }, "the news of rank 1"));
  EXPECT_EQ(seen.gone()[0].rank, 3);
  EXPECT_EQ(seen.gone()[1].rank, 1);
  const std::uint32_t word = 5;
  for (const int gone : {1, 3})
    EXPECT_EQ(w.ranks.at(0).to().send_inline(gone, 0, nullptr, 0, &word, 4), errorcode_t::fatal);
  const std::size_t before = w.ranks.at(2).seen().arrived();
  w.send(0, 2, 2);
  w.send(0, 0, 2);
  EXPECT_TRUE(w.ranks.until([&] { return w.ranks.at(2).seen().arrived() > before; }, "the living"));
  for (int i = 0; i < 50; ++i) w.ranks.poll();
  EXPECT_EQ(seen.gone().size(), 2u) << "said more than once";
}

// ---- networks that only count ----

struct counts {
  int fabrics = 0, devices = 0, polls = 0, left = 0, connects = 0;
  std::size_t events_per_poll = 0, last_max = 0;
  bool refuses_devices = false, is_drained = true;
  std::function<void(net::sink&)> in_poll;
};

class counting_endpoint final : public net::endpoint {
 public:
  errorcode_t send_inline(int, std::uint32_t, const void*, std::size_t, const void*,
                          std::size_t) noexcept override {
    return errorcode_t::done;
  }
  errorcode_t send(const net::net_op&) noexcept override { return errorcode_t::done; }
  errorcode_t put(const net::net_op&) noexcept override { return errorcode_t::done; }
  errorcode_t put_imm(const net::net_op&) noexcept override { return errorcode_t::done; }
  errorcode_t get(const net::net_op&) noexcept override { return errorcode_t::done; }
};

class counting_device final : public net::device {
 public:
  explicit counting_device(counts& of) : of_(of) { ++of_.devices; }
  ~counting_device() override { --of_.devices; }
  std::unique_ptr<net::endpoint> make_endpoint() override {
    return std::make_unique<counting_endpoint>();
  }
  std::size_t poll(net::sink& to, std::size_t max) noexcept override {
    ++of_.polls;
    of_.last_max = max;
    if (of_.in_poll) of_.in_poll(to);
    return std::min(max, of_.events_per_poll);
  }
  bool is_drained() const noexcept override { return of_.is_drained; }

 private:
  counts& of_;
};

class counting_fabric final : public net::fabric {
 public:
  counting_fabric(counts& of, bool needs_keys) : of_(of) {
    caps_.needs_keys = needs_keys;
    ++of_.fabrics;
  }
  ~counting_fabric() override { --of_.fabrics; }
  const net::capabilities& caps() const noexcept override { return caps_; }
  std::string_view name() const noexcept override { return "counting"; }
  std::string address() const override { return {}; }
  std::unique_ptr<net::device> make_device(int, net::device_config&) override {
    if (of_.refuses_devices) throw backend_error("no queues left");
    return std::make_unique<counting_device>(of_);
  }
  void connect(int) noexcept override { ++of_.connects; }
  net::remote_view check_remote(int, net::remote_key, int) noexcept override { return {}; }
  std::uint64_t register_region(void*, std::size_t, mem::mem_kind, std::string&) override {
    return 0;
  }
  void deregister_region(std::uint64_t) noexcept override {}
  void leave() noexcept override { ++of_.left; }

 private:
  counts& of_;
  net::capabilities caps_;
};

struct counted_pair {
  explicit counted_pair(std::vector<way> ways = {way::local, way::remote})
      : fabric(std::make_unique<counting_fabric>(local, false),
               std::make_unique<counting_fabric>(remote, true), std::move(ways)) {}
  void use() {
    device = fabric.make_device(0, config);
    endpoint = device->make_endpoint();
  }
  void poll(int times) {
    for (int i = 0; i < times; ++i) device->poll(sink, 32);
  }
  counts local, remote;
  net::routed_fabric fabric;
  net::device_config config;
  std::unique_ptr<net::device> device;
  std::unique_ptr<net::endpoint> endpoint;
  recorder sink;
};

TEST(route, local_network_that_wants_keys__is_refused) {
  counts local, remote;
  EXPECT_THROW(net::routed_fabric(std::make_unique<counting_fabric>(local, true),
                                  std::make_unique<counting_fabric>(remote, true),
                                  std::vector<way>(2, way::local)),
               backend_error);
  EXPECT_EQ(local.fabrics + remote.fabrics, 0) << "something was left behind";
}

TEST(route, second_device_that_cannot_be_made__takes_the_first_along) {
  counted_pair w;
  w.remote.refuses_devices = true;
  EXPECT_THROW(w.use(), backend_error);
  EXPECT_EQ(w.local.devices, 0);
  w.remote.refuses_devices = false;
  w.use();
  EXPECT_EQ(w.local.devices + w.remote.devices, 2);
}

TEST(route, quiet_remote_network__is_polled_less_often_until_something_happens) {
  constexpr int AFTER = net::routed_device::QUIET_AFTER, EVERY = net::routed_device::QUIET_EVERY;
  counted_pair w;
  w.use();
  w.poll(AFTER - 1);
  EXPECT_EQ(w.remote.polls, AFTER - 1);
  const auto polls_of_next = [&](int times) {
    const int before = w.remote.polls;
    w.poll(times);
    return w.remote.polls - before;
  };
  // For as long as it takes: the count of quiet polls must not begin anew.
  for (int i = 0; i < 100; ++i) EXPECT_EQ(polls_of_next(100 * EVERY), 100) << i;
  std::uint32_t word = 0;
  w.endpoint->send_inline(0, 0, nullptr, 0, &word, 4);
  EXPECT_EQ(polls_of_next(10 * EVERY), 10) << "a message inside the host is no news of the network";
  w.endpoint->send_inline(1, 0, nullptr, 0, &word, 4);
  EXPECT_EQ(polls_of_next(100), 100) << "an answer may come";
  w.poll(2 * AFTER);
  w.remote.events_per_poll = 1;
  EXPECT_GE(polls_of_next(EVERY + 100), 100) << "more may follow";
  EXPECT_EQ(w.local.polls,
            AFTER - 1 + 100 * 100 * EVERY + 10 * EVERY + 100 + 2 * AFTER + EVERY + 100);
}

TEST(route, remote_network_nobody_is_reached_over__is_not_polled) {
  counted_pair w({way::local, way::local});
  w.use();
  w.poll(100);
  EXPECT_EQ(w.remote.polls, 0);
  EXPECT_EQ(w.local.polls, 100);
}

TEST(route, busy_local_network__leaves_the_remote_one_its_turn) {
  counted_pair w;
  w.use();
  w.local.events_per_poll = 1000;
  w.remote.events_per_poll = 1000;
  EXPECT_EQ(w.device->poll(w.sink, 32), 33u);
  EXPECT_EQ(w.local.last_max, 32u);
  EXPECT_EQ(w.remote.last_max, 1u);
  w.local.events_per_poll = 10;
  EXPECT_EQ(w.device->poll(w.sink, 32), 32u);
}

TEST(route, poll__is_for_one_thread_and_for_those_inside_it) {
  counted_pair w;
  w.use();
  std::size_t of_other = 99;
  int nested = 0;
  bool is_first = true;
  w.remote.events_per_poll = 1;
  w.remote.in_poll = [&](net::sink& to) {
    if (!std::exchange(is_first, false)) return;
    std::thread([&] { of_other = w.device->poll(to, 32); }).join();
    const int before = w.local.polls;
    w.device->poll(to, 32);
    nested = w.local.polls - before;
  };
  w.poll(1);
  EXPECT_EQ(of_other, 0u);
  EXPECT_EQ(nested, 1);
}

TEST(route, end_and_state__are_of_both) {
  counted_pair w;
  w.use();
  EXPECT_TRUE(w.device->is_drained());
  w.local.is_drained = false;
  EXPECT_FALSE(w.device->is_drained());
  w.local.is_drained = true;
  w.remote.is_drained = false;
  EXPECT_FALSE(w.device->is_drained());
  w.fabric.connect(0);
  w.fabric.connect(1);
  EXPECT_EQ(w.local.connects, 1);
  EXPECT_EQ(w.remote.connects, 1);
  w.fabric.leave();
  EXPECT_EQ(w.local.left, 1);
  EXPECT_EQ(w.remote.left, 1);
}

}  // namespace
}  // namespace lci::test
