// Ranks of the libfabric backend in one process on the fake library, with access to what is inside.
// Threads: the test's. Always true: at the end no object of the library is alive.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/ofi/fabric.hpp"
#include "tests/contract/group.hpp"
#include "tests/support/fake_ofi/fake_ofi.hpp"
#include "tests/support/scoped_env.hpp"

namespace lci::ofi {

// The library that the backend loads in this process.
inline test::fake_ofi& fake() {
  static test::fake_ofi* const one = test::load_fake_ofi(LCI_FAKE_OFI_LIBRARY);
  std::string why_not;
  if (one == nullptr || find_library(why_not) == nullptr)
    throw std::runtime_error("there is no " LCI_FAKE_OFI_LIBRARY);
  return *one;
}

// A network of its own for each test.
class on_a_network : public testing::Test {
 protected:
  on_a_network() { fake().reset(); }
  ~on_a_network() override {
    EXPECT_EQ(fake().live(), 0u) << "objects of the library are alive";
    EXPECT_EQ(fake().take_complaints(), std::vector<std::string>());
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

  std::vector<fabric*> fabrics_;
};

}  // namespace lci::ofi
