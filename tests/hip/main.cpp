// The tests, or with --probe the sentence of this machine. Threads: single.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "backends/hip/domain.hpp"

int main(int count, char** arguments) {
  if (count == 2 && std::strcmp(arguments[1], "--probe") == 0) {
    const std::string why_not = lci::hip::DOMAIN.probe();
    std::printf("hip: %s\n", why_not.empty() ? "usable" : why_not.c_str());
    return 0;
  }
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
