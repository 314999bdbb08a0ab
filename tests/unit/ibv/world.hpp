// Ranks of the verbs backend in one process on the fake library, with access to what is inside.
// Threads: the test's. Always true: at the end no object of the library is alive.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/ibv/fabric.hpp"
#include "tests/contract/opened_ranks.hpp"
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
inline chosen_port open_best_port(const port_settings& settings) {
  std::vector<chosen_port> all = open_ports(settings);
  EXPECT_EQ(all.size(), 1u);
  return std::move(all.at(0));
}

// A card of its own for each test.
class on_a_card : public test::opened_ranks<fabric> {
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

  // Of so many datagrams one is lost, comes twice, or late. 0: none.
  static test::fake_ibv_config datagrams(unsigned lose, unsigned repeat, unsigned hold) {
    test::fake_ibv_config out;
    out.lose = lose;
    out.repeat = repeat;
    out.hold = hold;
    return out;
  }
  test::scoped_env environment_;
};

}  // namespace lci::ibv
