// The shared-memory backend joins the contract suite: all ranks in one process, which it has to
// support for self-sends and threads anyway; real processes are in processes_test.cpp.
#include <gtest/gtest.h>

#include <stdexcept>

#include "lci/net/provider.hpp"
#include "tests/contract/suite.hpp"

namespace lci::test {
namespace {

std::unique_ptr<group> make_shm_group(int ranks, int devices) {
  return std::make_unique<group>(ranks, devices, [](int, const net::fabric_config& config) {
    for (const net::provider& p : net::providers()) {
      if (p.name == "shm") return p.open(config);
    }
    throw std::runtime_error("no provider is called shm");
  });
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(shm, backend_contract,
                         testing::Values(backend_under_test{"shm", &make_shm_group}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace lci::test
