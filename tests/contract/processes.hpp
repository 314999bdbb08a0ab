// Declares the fixture of the part of the suite that runs real processes, so that backends can join
// it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/process_harness.hpp"

namespace lci::test {

// The parameter is the name of a provider.
class process_contract : public testing::TestWithParam<std::string> {
 protected:
  // Waits for all to end as given, and looks whether anything is left of them: a file of shared
  // memory, a socket.
  void expect_clean_ends(processes& all, const std::vector<process_end>& expected = {});

 private:
  std::vector<std::string> files_before_ = shared_memory_files();
};

// A build may have no backend to join.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(process_contract);

}  // namespace lci::test
