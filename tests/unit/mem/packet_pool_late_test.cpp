// Packets that come home after the operation that they were for was over.
#include <gtest/gtest.h>

#include <memory>

#include "lci/mem/packet_pool.hpp"
#include "tests/support/sizes.hpp"

namespace lci::mem {
namespace {

TEST(release_late, goes_to_the_pool_that_has_cut_it) {
  arena memory(256 * test::MIB);
  packet_pool pool(memory, 512, 4), other(memory, 512, 4);
  packet* const p = pool.get();
  packet* const of_other = other.get();
  release_late(memory, p);
  EXPECT_EQ(pool.outstanding(), 0u);
  EXPECT_EQ(other.outstanding(), 1u);
  EXPECT_EQ(pool.get(), p);
  release_late(memory, p);
  release_late(memory, of_other);
  EXPECT_EQ(other.outstanding(), 0u);
}

// The next pool may be where it was.
TEST(release_late, of_a_pool_that_has_gone__is_nobodys) {
  arena memory(256 * test::MIB);
  auto pool = std::make_unique<packet_pool>(memory, 512, 4);
  packet* const p = pool->get();
  pool.reset();
  packet_pool next(memory, 512, 4);
  packet* const of_next = next.get();
  p->pool = of_next->pool;
  release_late(memory, p);
  EXPECT_EQ(p->state.load(), packet_state::out);
  EXPECT_EQ(next.outstanding(), 1u);
  release_late(memory, of_next);
}

}  // namespace
}  // namespace lci::mem
