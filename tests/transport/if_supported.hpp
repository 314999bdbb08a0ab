// Skips the tests of a program where this build has no transports.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "lci/transport.hpp"

namespace transport_test {

class if_supported : public testing::Environment {
 public:
  void SetUp() override {
    std::string why_not;
    if (!lci::transport::supported(&why_not)) GTEST_SKIP() << why_not;
  }
};

inline const testing::Environment* const supported_only =
    testing::AddGlobalTestEnvironment(new if_supported);

}  // namespace transport_test
