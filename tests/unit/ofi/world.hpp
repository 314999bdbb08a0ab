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
#include "tests/contract/opened_ranks.hpp"
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
class on_a_network : public test::opened_ranks<fabric> {
 protected:
  on_a_network() { fake().reset(); }
  ~on_a_network() override {
    EXPECT_EQ(fake().live(), 0u) << "objects of the library are alive";
    EXPECT_EQ(fake().take_complaints(), std::vector<std::string>());
  }
};

}  // namespace lci::ofi
