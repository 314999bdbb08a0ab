// How the transports of these tests are made: over each provider in turn, LCI_TEST_PROVIDER.
#pragma once

#include <cstdlib>

#include "lci/transport.hpp"

namespace transport_test {

inline lci::transport_options usual() {
  lci::transport_options options;
  if (const char* const name = std::getenv("LCI_TEST_PROVIDER")) options.providers = {name};
  // A set-up takes longer than a program's 10 s on a machine with much to do, above all under a
  // sanitizer.
  options.timeout_s = 600;
  return options;
}

}  // namespace transport_test
