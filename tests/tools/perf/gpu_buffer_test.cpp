// Which GPU a seat has.
#include "tools/perf/gpu_buffer.hpp"

#include <gtest/gtest.h>

#include <set>

namespace lci_perf {
namespace {

TEST(perf_gpu_buffer, gpu_of__ends_of_a_pair_are_on_two) {
  for (const int count : {2, 3, 4, 8}) {  // GPUs of the machine
    for (int pair = 0; pair < 8; ++pair)
      EXPECT_NE(gpu_of(pair, 0) % count, gpu_of(pair, 1) % count) << pair << " of " << count;
  }
}

TEST(perf_gpu_buffer, gpu_of__seats_have_one_each_where_there_are_enough) {
  std::set<int> used;
  for (int pair = 0; pair < 4; ++pair) used.insert({gpu_of(pair, 0), gpu_of(pair, 1)});
  EXPECT_EQ(used.size(), 8u);
  EXPECT_EQ(*used.rbegin(), 7);
}

}  // namespace
}  // namespace lci_perf
