#include <gtest/gtest.h>

#include "tests/accelerator/real_gpu.hpp"

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  const int skipped = lci::cuda::skip_without_gpu();
  return skipped != 0 ? skipped : RUN_ALL_TESTS();
}
