// Ranks of the verbs backend in one process on the fake library, with access to what is inside.
// Threads: the test's. Always true: at the end no object of the library is alive.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/ibv/fabric.hpp"
#include "tests/contract/group.hpp"
#include "tests/support/fake_ibv/fake_ibv.hpp"
#include "tests/support/scoped_env.hpp"

namespace lci::ibv {

// The library that the backend loads in this process.
inline test::fake_ibv& card() {
  static test::fake_ibv* const one = test::load_fake_ibv(LCI_FAKE_IBV);
  std::string why_not;
  if (one == nullptr || find_library(why_not) == nullptr)
    throw std::runtime_error("there is no " LCI_FAKE_IBV);
  return *one;
}

// The port that is used where one is enough.
inline chosen_port open_best_port(const port_wishes& wishes) {
  std::vector<chosen_port> all = open_ports(wishes);
  EXPECT_EQ(all.size(), 1u);
  return std::move(all.at(0));
}

// A card of its own for each test.
class on_a_card : public testing::Test {
 protected:
  on_a_card() {
    // Who ends without a word is noticed by the card, not by what the processor knows.
    environment_.set("LCI_IBV_TIMEOUT", "8");
    environment_.set("LCI_IBV_RETRY", "1");
    card().reset();
  }
  ~on_a_card() override {
    EXPECT_EQ(card().live().all(), 0u) << "objects of the library are alive";
    EXPECT_EQ(card().take_complaints(), std::vector<std::string>());
  }

  // Ranks with a device; `change` may alter what each gets.
  std::unique_ptr<test::group> open(int ranks, int devices = 1,
                                    std::function<void(net::fabric_config&)> change = {},
                                    const net::device_config& wanted = {}) {
    fabrics_.clear();
    const auto open_one = [&, change](int, net::fabric_config config) {
      if (change) change(config);
      auto made = make(config);
      fabrics_.push_back(made.get());
      return made;
    };
    return std::make_unique<test::group>(ranks, devices, open_one, wanted);
  }
  std::unique_ptr<test::group> open(int ranks, const net::device_config& wanted) {
    return open(ranks, 1, {}, wanted);
  }
  // A fabric, or nothing that is left of one.
  static std::unique_ptr<fabric> make(const net::fabric_config& config) {
    const std::size_t before = config.arena->in_use();
    try {
      return std::make_unique<fabric>(config);
    } catch (...) {
      EXPECT_EQ(config.arena->in_use(), before) << "blocks of the arena are lost";
      throw;
    }
  }
  // Of so many datagrams one is lost, comes twice, or late. 0: none.
  static test::fake_ibv_config datagrams(unsigned lose, unsigned repeat, unsigned hold) {
    test::fake_ibv_config out;
    out.lose = lose;
    out.repeat = repeat;
    out.hold = hold;
    return out;
  }
  fabric& at(int rank) { return *fabrics_[static_cast<std::size_t>(rank)]; }

  static errorcode_t send(test::group& g, int from, int to, std::uint32_t imm = 0) {
    const std::uint64_t word = imm;
    return g.at(from).to().send_inline(to, imm, nullptr, 0, &word, sizeof(word));
  }
  // A message each way, so that both sides are connected.
  static void meet(test::group& g, int a, int b) {
    for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      const std::size_t before = g.at(to).seen().arrived();
      g.post([&] { return send(g, from, to); });
      ASSERT_TRUE(g.until([&] { return g.at(to).seen().arrived() > before; }, "first contact"));
    }
  }
  static bool until_gone(test::group& g, int rank, std::size_t peers = 1) {
    return g.until([&] { return g.at(rank).seen().gone().size() >= peers; }, "a peer to be gone");
  }

  test::scoped_env environment_;
  std::vector<fabric*> fabrics_;
};

}  // namespace lci::ibv
