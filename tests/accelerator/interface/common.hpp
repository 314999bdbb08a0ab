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

// Each rank sends the next one a message of `size` bytes; "", or what is wrong with the one that
// came. `at_receiver`, `at_sender`: how the memory is named.
inline std::string send_around(const guarded& out, const guarded& in, std::size_t size,
                               const lci::mr_t& at_receiver = lci::MR_DEVICE,
                               const lci::mr_t& at_sender = lci::MR_DEVICE) {
  const std::uint64_t use = next_use();
  out->fill(seed_of(world().rank, use));
  in->clear(seed_of(world().previous(), use));
  const owned_comp received(lci::alloc_counter());
  post(lci::post_recv_x(world().previous(), in->get(), size, use, received).mr(at_receiver));
  post_and_wait(
      lci::post_send_x(world().next(), out->get(), size, use, lci::COMP_NULL).mr(at_sender));
  wait_until([&] { return lci::counter_get(received) == 1; });
  return in->check(seed_of(world().previous(), use));
}

}  // namespace accelerator_test
