// The libfabric backend joins the contract suite, over each provider that is here: all ranks in one
// process.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "lci/net/provider.hpp"
#include "tests/contract/processes.hpp"
#include "tests/contract/suite.hpp"

namespace lci::test {
namespace {

const net::provider& ofi() {
  for (const net::provider& p : net::providers()) {
    if (p.name == "ofi") return p;
  }
  throw std::runtime_error("no provider is called ofi");
}

// name: of the tests; provider: of libfabric.
backend_under_test ofi_with(std::string name, std::string provider,
                            const net::device_config& wanted = {}) {
  return {std::move(name), [=](int ranks, int devices) {
            const auto open = [=](int, net::fabric_config config) {
              config.ofi_provider = provider;
              return ofi().open(config);
            };
            return std::make_unique<group>(ranks, devices, open, wanted);
          }};
}

// What providers open once, when they are first asked, is not left behind by a test.
class asked_before final : public testing::Environment {
  void SetUp() override {
    if (testing::GTEST_FLAG(filter).find("ofi") != std::string::npos) (void)ofi().probe();
  }
};
const testing::Environment* const asked = testing::AddGlobalTestEnvironment(new asked_before);

}  // namespace

// Queues as usual, and so short that they are always full and with all locks.
INSTANTIATE_TEST_SUITE_P(
    ofi, backend_contract,
    testing::Values(ofi_with("tcp", "tcp"),
                    ofi_with("shallow", "tcp",
                             {16, 16, 1024, attr_ibv_td_strategy_t::per_qp, LCI_NET_LOCK_ALL}),
                    ofi_with("sockets", "sockets"), ofi_with("shm", "shm"), ofi_with("best", "")),
    [](const auto& tested) { return tested.param.name; });

INSTANTIATE_TEST_SUITE_P(ofi, process_contract, testing::Values("ofi"),
                         [](const auto& tested) { return tested.param; });

}  // namespace lci::test
