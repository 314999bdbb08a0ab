// Ranks of one backend in one process, with access to what is inside: the part of a fixture that is
// the same for all backends. Threads: the test's.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lci/base/platform.hpp"
#include "lci/mem/arena.hpp"
#include "tests/contract/group.hpp"

namespace lci::test {

template <class Fabric>
class opened_ranks : public testing::Test {
 protected:
  // Ranks with a device; `change` may alter what each gets.
  std::unique_ptr<group> open(int ranks, int devices = 1,
                              std::function<void(net::fabric_config&)> change = {},
                              const net::device_config& wanted = {}) {
    fabrics_.clear();
    const auto open_one = [&, change](int, net::fabric_config config) {
      if (change) change(config);
      auto made = make(config);
      fabrics_.push_back(made.get());
      return made;
    };
    return std::make_unique<group>(ranks, devices, open_one, wanted);
  }
  std::unique_ptr<group> open(int ranks, const net::device_config& wanted) {
    return open(ranks, 1, {}, wanted);
  }
  // A fabric, or nothing that is left of one.
  static std::unique_ptr<Fabric> make(const net::fabric_config& config) {
    const std::size_t before = config.arena->in_use();
    try {
      return std::make_unique<Fabric>(config);
    } catch (...) {
      EXPECT_EQ(config.arena->in_use(), before) << "blocks of the arena are lost";
      throw;
    }
  }
  Fabric& at(int rank) { return *fabrics_[static_cast<std::size_t>(rank)]; }

  static errorcode_t send(group& g, int from, int to, std::uint32_t imm = 0) {
    const std::uint64_t word = imm;
    return g.at(from).to().send_inline(to, imm, nullptr, 0, &word, sizeof(word));
  }
  // A message each way, so that both sides are connected.
  static void meet(group& g, int a, int b) {
    for (const auto& way : {std::pair{a, b}, std::pair{b, a}}) {
      const int from = way.first, to = way.second;
      const std::size_t before = g.at(to).seen().arrived();
      g.post([&] { return send(g, from, to); });
      ASSERT_TRUE(g.until([&] { return g.at(to).seen().arrived() > before; }, "first contact"));
    }
  }
  // A put or a get of all of `local`, at the beginning of what rank 1 has registered.
  static net::net_op transfer_of(std::vector<std::byte>& local, net::remote_key to, op_fate& fate) {
    net::net_op op;
    op.rank = 1;
    op.buffer = local.data();
    op.size = local.size();
    op.remote = to;
    op.context = &fate;
    return op;
  }
  // Polls one rank; waiting ends.
  static bool until_alone(group& g, int rank, const std::function<bool()>& is_so) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < limit) {
      if (is_so()) return true;
      g.at(rank).poll();
    }
    return false;
  }
  // Rank 0 is ready and has sent while rank 1 calls it still, since the answer was lost: `lose`
  // sees to that at each poll. Then others know that rank 0 has failed.
  static void expect_the_message_before_the_end(group& g, const std::function<void()>& lose,
                                                std::uint64_t look_ms) {
    using net::peer_state;
    const recorder& seen = g.at(1).seen();
    net::peer_table& peers = g.at(1).peers;
    EXPECT_EQ(send(g, 0, 1), errorcode_t::retry_nomem);
    ASSERT_TRUE(
        until_alone(g, 0, [&] { return g.at(0).peers.state(1) == peer_state::connecting; }));
    ASSERT_TRUE(until_alone(g, 1, [&] { return peers.state(0) == peer_state::connecting; }));
    ASSERT_TRUE(until_alone(g, 0, [&] {
      lose();
      return send(g, 0, 1) == errorcode_t::done;
    }));
    peers.report(0, net::peer_event::fail, "it died");
    // Polls that present nothing, each when a look is due.
    for (int i = 0; i < 2; ++i) {
      const std::uint64_t since = base::cpu_ticks();
      while (base::cpu_ticks() <= since + look_ms * base::ticks_per_ms()) {
      }
      g.at(1).devices[0]->poll(g.at(1).seen(), 0);
    }
    EXPECT_EQ(seen.gone().size(), 0u) << "the message was not read yet";
    ASSERT_TRUE(until_alone(g, 1, [&] { return !seen.gone().empty(); }));
    EXPECT_EQ(seen.arrived(), 1u);
    EXPECT_EQ(seen.gone()[0].messages_before, 1u);
    EXPECT_EQ(seen.gone()[0].reason, "the rank has failed");
  }
  // Two ranks talk over a device of that number.
  void expect_a_message_over(group& g, int number) {
    std::unique_ptr<net::device> ends[2];
    recorder sinks[2];
    for (const int rank : {0, 1}) {
      net::device_config same = g.at(rank).wanted;
      ends[rank] = at(rank).make_device(number, same);
    }
    const auto to = ends[0]->make_endpoint();
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    errorcode_t answer{};
    do {
      const std::uint64_t word = 7;
      if (answer != errorcode_t::done)
        answer = to->send_inline(1, 7, nullptr, 0, &word, sizeof(word));
      for (const int rank : {0, 1}) ends[rank]->poll(sinks[rank], 8);
    } while (sinks[1].arrived() == 0 && std::chrono::steady_clock::now() < limit);
    EXPECT_EQ(sinks[1].arrived(), 1u);
  }
  static bool until_gone(group& g, int rank, std::size_t peers = 1) {
    return g.until([&] { return g.at(rank).seen().gone().size() >= peers; }, "a peer to be gone");
  }

  // A rank that keeps what a name means puts over any device, and hears of its end on each before
  // what is sent there afterwards: also where another one has asked, or the one that has asked is
  // not polled any more. Two ranks with two devices.
  void expect_ends_are_told_on_both_devices(group& g) {
    for (const int device : {0, 1}) meet_over(g, device);
    std::vector<std::byte> there(64);
    for (const std::size_t asks : {0u, 1u}) {
      for (const std::size_t hears : {0u, 1u}) {
        const net::remote_key key = g.at(1).expose(there.data(), there.size());
        const auto is_known = [&] {
          const net::remote_view seen = at(0).check_remote(1, key, static_cast<int>(asks));
          return seen.what == net::remote_view::answer::ok;
        };
        for (int i = 0; i < 1000 && !is_known(); ++i) poll_over(g, asks);
        // What the owner is told comes over that device alone, too.
        for (int i = 0; i < 10; ++i) poll_over(g, asks);
        EXPECT_TRUE(is_known());
        g.at(1).hide(key);
        for (int i = 0; i < 10; ++i) poll_over(g, hears);
        EXPECT_FALSE(is_known()) << "asked over " << asks << ", heard over " << hears;
        g.settle();
      }
    }
  }
  // The same where the owner gets to know that rank over one more device after the end.
  void expect_a_later_connection_does_without_what_has_ended(group& g) {
    meet_over(g, 0);
    std::vector<std::byte> there(64);
    const net::remote_key key = g.at(1).expose(there.data(), there.size());
    const auto is_known = [&] {
      return at(0).check_remote(1, key).what == net::remote_view::answer::ok;
    };
    for (int i = 0; i < 1000 && !is_known(); ++i) poll_over(g, 0);
    for (int i = 0; i < 10; ++i) poll_over(g, 0);
    EXPECT_TRUE(is_known());
    g.at(1).hide(key);
    // Nobody polls the device over which it was asked for.
    const std::uint64_t word = 0;
    for (int i = 0; i < 1'000'000 && g.at(0).seen(1).arrived() == 0; ++i) {
      g.at(1).to(1).send_inline(0, 0, nullptr, 0, &word, sizeof(word));
      poll_over(g, 1);
    }
    ASSERT_EQ(g.at(0).seen(1).arrived() != 0, true);
    EXPECT_FALSE(is_known());
    g.settle();
  }
  // The device of rank 0 has given up waiting; the next one of its index finds the ends. Two ranks.
  void expect_what_a_device_left_is_told_to_nobody(group& g) {
    std::vector<std::byte> there(64), local(64);
    const net::remote_key key = g.at(1).expose(there.data(), there.size());
    g.learn(0, 1, key);
    meet(g, 0, 1);
    g.settle();
    op_fate fate;
    net::net_op op = transfer_of(local, key, fate);
    ASSERT_EQ(g.post([&] { return g.at(0).to().get(op); }), errorcode_t::posted);
    // Out of range, and of nobody.
    for (op.remote_offset = 1; op.rank >= 0; --op.rank)
      ASSERT_EQ(g.at(0).to().get(op), errorcode_t::posted) << "rank " << op.rank;
    std::unique_ptr<net::device>& device = g.at(0).devices[0];
    EXPECT_FALSE(device->is_drained());
    device.reset();
    net::device_config same = g.at(0).wanted;
    device = at(0).make_device(0, same);
    EXPECT_TRUE(g.until([&] { return device->is_drained(); }, "the ends of what was left"));
    EXPECT_EQ(fate.signals(), 0);
    g.at(1).hide(key);
  }
  static void meet_over(group& g, int device) {
    const std::uint64_t word = 0;
    g.until(
        [&] {
          for (const int rank : {0, 1})
            g.at(rank).to(device).send_inline(1 - rank, 0, nullptr, 0, &word, sizeof(word));
          return g.at(0).seen(device).arrived() != 0 && g.at(1).seen(device).arrived() != 0;
        },
        "first contact");
  }
  static void poll_over(group& g, std::size_t device) {
    for (const int rank : {0, 1}) g.at(rank).devices[device]->poll(*g.at(rank).sinks[device], 32);
  }

  std::vector<Fabric*> fabrics_;
};

}  // namespace lci::test
