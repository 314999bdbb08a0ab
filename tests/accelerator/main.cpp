#include <gtest/gtest.h>

#include <cstdio>

#include "backends/cuda/driver.hpp"

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  lci::cuda::driver d;
  if (const std::string reason = d.why_not(); !reason.empty()) {
    std::printf("skipped: %s\n", reason.c_str());
    return 77;
  }
  std::printf("driver %s, GPUs %d\n", lci::cuda::version_text(d.version()).c_str(), d.gpu_count());
  return RUN_ALL_TESTS();
}
