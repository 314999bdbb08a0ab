// The fake fabric joins the contract suite, in the shapes of several networks.
#include <gtest/gtest.h>

#include "tests/contract/suite.hpp"
#include "tests/support/sim/sim.hpp"

namespace lci::test {
namespace {

backend_under_test sim_like(std::string name, const sim_options& options) {
  return {std::move(name), [options](int ranks, int devices) {
            auto world = std::make_shared<sim_world>(ranks, options);
            return std::make_unique<group>(
                ranks, devices,
                [world](int rank, const net::fabric_config& c) { return world->open(rank, c); });
          }};
}

// What each one stands for: shared memory; a network with receive buffers and late completions; the
// least that the contract allows; a slow and refusing one; a card, which wants keys.
std::vector<backend_under_test> shapes() {
  sim_options network{.packets = sim_packets::own, .depth = 16, .late = true, .connect_polls = 5};
  sim_options least{.packets = sim_packets::none, .depth = 4, .late = true};
  least.caps = {.max_inject = 64, .max_send = 8256, .max_rma = 4096};
  least.reorder_one_in = 3;
  least.max_delay_polls = 4;
  sim_options slow{.max_delay_polls = 8, .refuse_one_in = 3};
  sim_options card = network;
  card.needs_keys = true;
  card.caps.max_inject = 88;
  return {sim_like("lending", {}), sim_like("network", network), sim_like("least", least),
          sim_like("slow", slow), sim_like("card", card)};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(sim, backend_contract, testing::ValuesIn(shapes()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace lci::test
