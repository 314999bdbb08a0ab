// The shared-memory backend joins the contract suite: all ranks in one process, which it has to
// support for self-sends and threads anyway; real processes are in processes_contract.cpp.
#include <gtest/gtest.h>

#include <stdexcept>

#include "backends/shm/device.hpp"
#include "backends/shm/device_queues.hpp"
#include "lci/net/provider.hpp"
#include "tests/contract/processes.hpp"
#include "tests/contract/suite.hpp"

namespace lci::test {
namespace {

// Large messages have two ways; each has to do without the other, and with a threshold that mixes
// them. Lanes are lent to threads that poll beside the poller by usual rules, and as often as can
// be.
constexpr shm::lending_rules OFTEN{
    .look_every_us = 0, .steady_after = 1, .busy_from = 1, .sure_after = 1, .soon_us = 0};

backend_under_test shm_with(std::string name, bool single_copy, bool pipelined,
                            std::size_t single_copy_min, shm::lending_rules lending = {}) {
  return {std::move(name), [=](int ranks, int devices) {
            auto all = std::make_unique<group>(ranks, devices, [=](int, net::fabric_config config) {
              config.shm_single_copy = single_copy;
              config.shm_pipelined_copy = pipelined;
              config.shm_single_copy_min = single_copy_min;
              for (const net::provider& p : net::providers()) {
                if (p.name == "shm") return p.open(config);
              }
              throw std::runtime_error("no provider is called shm");
            });
            for (int rank = 0; rank < ranks; ++rank)
              for (const auto& device : all->at(rank).devices)
                static_cast<shm::device&>(*device).behind().sides.rules = lending;
            return all;
          }};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(shm, backend_contract,
                         testing::Values(shm_with("default", true, true, 0),
                                         shm_with("pipelined", false, true, 0),
                                         shm_with("single_copy", true, false, 0),
                                         shm_with("mixed", true, true, 5000, OFTEN)),
                         [](const auto& tested) { return tested.param.name; });

INSTANTIATE_TEST_SUITE_P(shm, process_contract, testing::Values("shm"),
                         [](const auto& tested) { return tested.param; });

}  // namespace lci::test
