// Tests of alltoall.cpp.
#include "lci/coll/algorithms.hpp"
#include "tests/unit/coll/plan_world.hpp"

namespace lci::coll::test {
namespace {

TEST(alltoall, plan__block_j_of_rank_i_becomes_block_i_of_rank_j) {
  for (const int n : {1, 2, 3, 4, 5, 8, 33}) {
    const size_t ranks = static_cast<size_t>(n);
    for (const size_t count : {size_t{0}, size_t{1}, size_t{77}}) {
      std::vector<std::vector<uint64_t>> in(ranks), out(ranks);
      for (int r = 0; r < n; ++r) {
        for (size_t i = 0; i < count * ranks; ++i) {
          in[static_cast<size_t>(r)].push_back(item_of(r, i));
        }
        out[static_cast<size_t>(r)].assign(count * ranks, 0);
      }
      plan_world_t world(n, [&](plan_t& plan) {
        const size_t me = static_cast<size_t>(plan.me());
        plan_alltoall(plan, in[me].data(), out[me].data(), count * sizeof(uint64_t));
      });
      ASSERT_TRUE(world.run()) << n << " ranks, count " << count;
      for (size_t j = 0; j < ranks; ++j) {
        for (size_t i = 0; i < ranks; ++i) {
          for (size_t k = 0; k < count; ++k) {
            ASSERT_EQ(out[j][i * count + k], in[i][j * count + k]);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lci::coll::test
