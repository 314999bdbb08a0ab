// Addresses of GPU memory that are freed and used again: nobody may see what was there before, and
// nothing that was remembered of an address may be believed.
#include <cstdio>

#include "tests/accelerator/interface/common.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/sizes.hpp"

namespace accelerator_test {
namespace {

using lci::test::KIB, lci::test::MIB;

TEST(reuse, messages__see_new_bytes_in_new_memory) {
  constexpr std::size_t SIZES[] = {100, 64 * KIB, 2 * MIB - 1024, 2 * MIB};
  auto random = lci::test::seeded(static_cast<std::uint64_t>(world().rank));
  std::uniform_int_distribution<std::size_t> chance(0, 11);
  const void* last[3] = {};
  int reused = 0;
  for (int i = 0; i < 120; ++i) {
    const auto n = static_cast<std::size_t>(i);
    const std::size_t size = SIZES[n % std::size(SIZES)];
    const std::size_t mine = chance(random);
    const place where = GPU_PLACES[mine % 3];
    const place there = GPU_PLACES[mine / 3 % 3];
    guarded out(where, size), in(there, size);
    reused += last[mine % 3] == out.memory().get() ? 1 : 0;
    last[mine % 3] = out.memory().get();
    const bool known = mine / 6 == 0;
    const std::string wrong = send_around(out, in, size, known ? lci::MR_UNKNOWN : lci::MR_DEVICE,
                                          known ? lci::MR_DEVICE : lci::MR_UNKNOWN);
    ASSERT_EQ(wrong, "") << "round " << i;
  }
  std::printf("rank %d: %d of 120 allocations had the address of the one before\n", world().rank,
              reused);
}

TEST(reuse, regions__registered_again_at_the_same_address) {
  for (const place where : GPU_PLACES) {
    for (int i = 0; i < 15; ++i) {
      const std::uint64_t use = next_use();
      const std::vector<std::size_t> sizes = {100, 64 * KIB, MIB};
      target from(where, sizes), to(where, sizes);
      for (std::size_t s = 0; s < sizes.size(); ++s) {
        from.at(s).fill(seed_of(world().rank, use * 4 + s));
        to.at(s).clear(seed_of(world().previous(), use * 4 + s));
      }
      barrier();
      for (std::size_t s = 0; s < sizes.size(); ++s) {
        const auto [rmr, disp] = to.at_peer(world().next(), s, handle::whole);
        post_and_wait(
            lci::post_put_x(world().next(), from.at(s).get(), sizes[s], lci::COMP_NULL, disp, rmr)
                .mr(from.mr(s, static_cast<handle>((i + 1) % HANDLES)))
                .comp_semantic(lci::comp_semantic_t::network));
      }
      barrier();
      for (std::size_t s = 0; s < sizes.size(); ++s)
        ASSERT_EQ(to.at(s).check(seed_of(world().previous(), use * 4 + s)), "")
            << name_of(where) << ", round " << i;
    }
  }
}

// Allocations that come and go within a block that another one keeps: the new memory overlaps what
// a peer has mapped of the old. Each message is copied directly all the same: the test's entry
// looks at the sums that the runtime tells at its end.
TEST(reuse, overlaps__are_no_detour) {
  constexpr int ROUNDS = 105;  // each shift with each size three times
  const place where = place::device;
  const guarded keeper(where, 4 * KIB);
  for (int i = 0; i < ROUNDS; ++i) {
    const auto n = static_cast<std::size_t>(i);
    // Moves what follows within the block.
    const guarded shift(where, (1 + n % 5) * 64 * KIB);
    const std::size_t size = MIB - n % 7 * 16 * KIB;
    guarded out(where, size), in(where, size);
    ASSERT_EQ(send_around(out, in, size), "") << "round " << i;
    barrier();
  }
}

// The same address and buffer, other physical memory.
TEST(reuse, vmm__mapped_anew_behind_the_same_address) {
  constexpr std::size_t SIZE = 2 * MIB;
  guarded out(place::vmm, SIZE - 4 * slot::GUARD), in(place::vmm, SIZE - 4 * slot::GUARD);
  for (int i = 0; i < 10; ++i) {
    if (i % 2 == 1) {
      lci::cuda::real_gpu::get().remap(out.memory().get(), out.memory().size());
      lci::cuda::real_gpu::get().remap(in.memory().get(), in.memory().size());
    }
    const lci::mr_t how = i % 4 < 2 ? lci::MR_DEVICE : lci::MR_UNKNOWN;
    ASSERT_EQ(send_around(out, in, in->size(), how, how), "") << "round " << i;
    barrier();
  }
}

}  // namespace
}  // namespace accelerator_test
