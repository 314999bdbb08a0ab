// Tests of gather.cpp.
#include "lci/coll/algorithms.hpp"
#include "tests/unit/coll/plan_world.hpp"

namespace lci::coll::test {
namespace {

class allgather_plan : public testing::TestWithParam<bool> {};

TEST_P(allgather_plan, every_rank_gets_all_blocks_in_rank_order) {
  const bool in_place = GetParam();
  for (const int n : {1, 2, 3, 4, 5, 8, 33}) {
    const size_t ranks = static_cast<size_t>(n);
    for (const size_t size : {size_t{0}, size_t{1}, size_t{999}}) {
      std::vector<uint8_t> expected;
      std::vector<std::vector<uint8_t>> out(ranks), in(ranks);
      for (size_t r = 0; r < ranks; ++r) {
        in[r].assign(size, static_cast<uint8_t>(r + 1));
        expected.insert(expected.end(), size, static_cast<uint8_t>(r + 1));
        out[r].assign(size * ranks, 0);
        if (in_place) std::fill_n(out[r].begin() + static_cast<ptrdiff_t>(r * size), size, r + 1);
      }
      plan_world_t world(n, [&](plan_t& plan) {
        const size_t me = static_cast<size_t>(plan.me());
        plan_allgather(plan, in_place ? out[me].data() + me * size : in[me].data(), out[me].data(),
                       size);
      });
      ASSERT_TRUE(world.run()) << n << " ranks, size " << size;
      for (const auto& result : out) ASSERT_EQ(result, expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(in_place, allgather_plan, testing::Bool());

}  // namespace
}  // namespace lci::coll::test
