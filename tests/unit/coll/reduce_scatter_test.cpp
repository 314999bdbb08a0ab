// Tests of reduce_scatter.cpp.
#include "lci/coll/algorithms.hpp"
#include "tests/unit/coll/plan_world.hpp"

namespace lci::coll::test {
namespace {

enum class place_t { apart, own_block };
class reduce_scatter_plan
    : public testing::TestWithParam<std::tuple<reduce_scatter_algorithm_t, place_t>> {};

TEST_P(reduce_scatter_plan, rank_r_gets_block_r_of_the_sum) {
  const auto [algorithm, place] = GetParam();
  for (const int n : RANK_COUNTS) {
    const size_t ranks = static_cast<size_t>(n);
    for (const size_t block : {size_t{0}, size_t{1}, size_t{7}, size_t{3000}}) {
      for (const int nsteps : {1, n, 3 * n}) {
        const size_t count = block * ranks;
        std::vector<std::vector<uint64_t>> in(ranks), out(ranks);
        std::vector<uint64_t> expected(count, 0);
        for (int r = 0; r < n; ++r) {
          for (size_t i = 0; i < count; ++i) {
            in[static_cast<size_t>(r)].push_back(item_of(r, i));
            expected[i] += item_of(r, i);
          }
          out[static_cast<size_t>(r)].assign(block, 0);
        }
        const auto before = in;
        const auto into = [&, where = place](size_t me) {
          return where == place_t::apart ? out[me].data() : in[me].data() + me * block;
        };
        plan_world_t world(
            n,
            [&, algo = algorithm](plan_t& plan) {
              const size_t me = static_cast<size_t>(plan.me());
              plan_reduce_scatter(plan, {in[me].data(), into(me), count, sizeof(uint64_t)}, algo,
                                  nsteps);
            },
            add_u64);
        ASSERT_TRUE(world.run()) << n << " ranks, block " << block << ", nsteps " << nsteps;
        for (size_t me = 0; me < ranks; ++me) {
          const std::vector<uint64_t> got(into(me), into(me) + block);
          const auto first = expected.begin() + static_cast<ptrdiff_t>(me * block);
          ASSERT_EQ(got, std::vector<uint64_t>(first, first + static_cast<ptrdiff_t>(block)));
          if (place == place_t::apart) {
            ASSERT_EQ(in[me], before[me]);
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(all, reduce_scatter_plan,
                         testing::Combine(testing::Values(reduce_scatter_algorithm_t::none,
                                                          reduce_scatter_algorithm_t::direct,
                                                          reduce_scatter_algorithm_t::tree,
                                                          reduce_scatter_algorithm_t::ring),
                                          testing::Values(place_t::apart, place_t::own_block)));

TEST(blocks, first__deals_out_evenly_and_completely) {
  for (const size_t count : {size_t{0}, size_t{3}, size_t{8}, size_t{1001}}) {
    const blocks_t blocks{count, 4, 5};
    EXPECT_EQ(blocks.first(0), 0u);
    EXPECT_EQ(blocks.first(5), count);
    for (int r = 0; r < 5; ++r) {
      EXPECT_LE(blocks.items(r), blocks.items(0));
      EXPECT_GE(blocks.items(r) + 1, blocks.items(0));
      EXPECT_EQ(blocks.offset(r), blocks.first(r) * 4);
    }
  }
}

TEST(reduce_scatter, choose__small_by_ranks_and_large_by_ring) {
  EXPECT_EQ(choose_reduce_scatter(65536, 8), reduce_scatter_algorithm_t::direct);
  EXPECT_EQ(choose_reduce_scatter(65536, 9), reduce_scatter_algorithm_t::tree);
  EXPECT_EQ(choose_reduce_scatter(65537, 2), reduce_scatter_algorithm_t::ring);
}

}  // namespace
}  // namespace lci::coll::test
