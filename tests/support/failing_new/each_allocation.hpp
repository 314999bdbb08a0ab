// Every allocation of a scenario fails in turn. Threads: as failing_new.hpp.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/support/failing_new/failing_new.hpp"

namespace lci::test {

// Runs scenario(n) for n = 1, 2, ... until none of its allocations fails any more.
template <class Scenario>
void for_each_allocation(Scenario&& scenario) {
  if (!CAN_NEW_FAIL) GTEST_SKIP() << "this sanitizer has an operator new of its own";
  std::uint64_t n = 1;
  while (scenario(n)) {
    if (testing::Test::HasFailure()) FAIL() << "allocation " << n;
    ++n;
  }
  EXPECT_GT(n, 1u) << "nothing was allocated at all";
}

}  // namespace lci::test
