// The lists that lci's own benchmarks take from their environment.
#include <gtest/gtest.h>

#include <stdexcept>

#include "bench/support/pair.hpp"

namespace bench {
namespace {

TEST(bench_lists, numbers_in__what_is_no_number_in_the_limits_is_refused) {
  EXPECT_EQ(numbers_in("LIST", "8,65536", 1, 65536), (std::vector<std::size_t>{8, 65536}));
  for (const char* wrong :
       {"", ",", "64K", "8,x", "8,,16", "0", "65537", "-1", "8 16", "99999999999999999999"})
    EXPECT_THROW(numbers_in("LIST", wrong, 1, 65536), std::invalid_argument) << wrong;
}

TEST(bench_lists, bandwidth_sizes__fill_the_buffers_and_no_more) {
  const std::vector<std::size_t> all = bandwidth_sizes(1 << 20);
  EXPECT_EQ(all.front(), 8u);
  EXPECT_EQ(all.back(), 1u << 20);
}

}  // namespace
}  // namespace bench
