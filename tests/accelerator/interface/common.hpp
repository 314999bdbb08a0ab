// What the tests of this folder share: the world of the interface suite, and collecting
// completions.
#pragma once

#include "tests/accelerator/interface/buffers.hpp"
#include "tests/interface/world.hpp"

namespace accelerator_test {

using interface_test::barrier;
using interface_test::insist;
using interface_test::linger;
using interface_test::owned_comp;
using interface_test::pop;
using interface_test::progress;
using interface_test::stays_empty;
using interface_test::wait_until;
using interface_test::world;

// Differs for each sender, test and use.
inline std::uint64_t seed_of(int sender, std::uint64_t use) {
  return use * 64 + static_cast<std::uint64_t>(sender);
}

// A number that no other use of this program has; the same on all ranks, which run the same tests.
inline std::uint64_t next_use() {
  static std::uint64_t last = 0;
  return ++last;
}

// Posts that must end in `cq`: also those that are done at once.
template <class Op>
void post(Op&& op) {
  op.allow_done(false);
  EXPECT_TRUE(insist(op).is_posted());
}

// Posts and returns when it is complete.
template <class Op>
void post_and_wait(Op&& op) {
  op.local_comp(lci::COMP_NULL);
  EXPECT_TRUE(insist(op).is_done());
}

}  // namespace accelerator_test
