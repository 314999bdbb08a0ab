// The verbs backend joins the contract suite: all ranks in one process on one card.
#include <gtest/gtest.h>

#include <stdexcept>

#include "lci/net/provider.hpp"
#include "tests/contract/processes.hpp"
#include "tests/contract/suite.hpp"

namespace lci::test {
namespace {

const net::provider& ibv() {
  for (const net::provider& p : net::providers()) {
    if (p.name == "ibv") return p;
  }
  throw std::runtime_error("no provider is called ibv");
}

backend_under_test ibv_with(std::string name, const net::device_config& wanted = {}) {
  return {std::move(name), [=](int ranks, int devices) {
            const auto open = [](int, const net::fabric_config& config) {
              return ibv().open(config);
            };
            return std::make_unique<group>(ranks, devices, open, wanted);
          }};
}

}  // namespace

// Queues as usual, and so short that they are always full and with one lock for all of them.
INSTANTIATE_TEST_SUITE_P(ibv, backend_contract,
                         testing::Values(ibv_with("default"),
                                         ibv_with("shallow", {16, 4096, 65536,
                                                              attr_ibv_td_strategy_t::all_qp})),
                         [](const auto& tested) { return tested.param.name; });

INSTANTIATE_TEST_SUITE_P(ibv, process_contract, testing::Values("ibv"),
                         [](const auto& tested) { return tested.param; });

}  // namespace lci::test
