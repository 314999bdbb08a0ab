#include "lci/gpu/copying.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace lci::gpu {
namespace {

TEST(copy, every_alignment__the_bytes_and_no_others) {
  for (std::size_t size = 0; size < 70; ++size) {
    for (std::size_t skew = 0; skew < 16; ++skew) {
      alignas(16) unsigned char from[128], to[128];
      for (std::size_t i = 0; i < 128; ++i) from[i] = static_cast<unsigned char>(i), to[i] = 0xaa;
      copy<thread, source::others>(to + 16 + skew, from + 8 + skew / 2, size);
      for (std::size_t i = 0; i < 128; ++i) {
        const bool is_in = i >= 16 + skew && i < 16 + skew + size;
        ASSERT_EQ(to[i], is_in ? from[i - 16 - skew + 8 + skew / 2] : 0xaa);
      }
    }
  }
}

}  // namespace
}  // namespace lci::gpu
