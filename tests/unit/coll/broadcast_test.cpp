// Tests of broadcast.cpp.
#include "lci/coll/algorithms.hpp"
#include "tests/unit/coll/plan_world.hpp"

namespace lci::coll::test {
namespace {

class broadcast_plan : public testing::TestWithParam<broadcast_algorithm_t> {};

TEST_P(broadcast_plan, arrives_everywhere_from_every_root) {
  for (const int n : RANK_COUNTS) {
    for (int root = 0; root < n; ++root) {
      for (const size_t size : {size_t{0}, size_t{1}, size_t{3}, size_t{1000}, size_t{70001}}) {
        for (const int nsteps : {1, 3, n}) {
          std::vector<std::vector<uint8_t>> data(static_cast<size_t>(n));
          for (auto& d : data) d.assign(size + 1, 0);
          for (size_t i = 0; i < size; ++i)
            data[static_cast<size_t>(root)][i] = static_cast<uint8_t>(i * 7 + 1);
          plan_world_t world(n, [&](plan_t& plan) {
            plan_broadcast(plan, data[static_cast<size_t>(plan.me())].data(), size, root,
                           GetParam(), nsteps);
          });
          ASSERT_TRUE(world.run()) << n << " ranks, root " << root << ", size " << size;
          for (const auto& d : data) ASSERT_EQ(d, data[static_cast<size_t>(root)]);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(all, broadcast_plan,
                         testing::Values(broadcast_algorithm_t::none, broadcast_algorithm_t::direct,
                                         broadcast_algorithm_t::tree, broadcast_algorithm_t::ring));

TEST(broadcast, choose__small_by_ranks_and_large_by_ring) {
  EXPECT_EQ(choose_broadcast(65536, 8), broadcast_algorithm_t::direct);
  EXPECT_EQ(choose_broadcast(65536, 9), broadcast_algorithm_t::tree);
  EXPECT_EQ(choose_broadcast(65537, 2), broadcast_algorithm_t::ring);
}

TEST(broadcast, plan__ring_cuts_into_the_pieces_asked_for) {
  char data[10];
  plan_t plan(0, 3);
  plan_broadcast(plan, data, sizeof data, 0, broadcast_algorithm_t::ring, 4);
  std::vector<size_t> sizes;
  for (const step_t& step : plan.steps()) {
    if (step.kind == step_t::kind_t::send) sizes.push_back(step.amount);
  }
  EXPECT_EQ(sizes, (std::vector<size_t>{3, 3, 3, 1}));
}

}  // namespace
}  // namespace lci::coll::test
