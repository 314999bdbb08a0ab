// Tests of barrier.cpp.
#include <algorithm>

#include "lci/coll/algorithms.hpp"
#include "tests/unit/coll/plan_world.hpp"

namespace lci::coll::test {
namespace {

TEST(barrier, plan__every_rank_hears_from_every_other_before_it_leaves) {
  for (const int n : RANK_COUNTS) {
    plan_world_t world(n, plan_barrier);
    // heard[r]: the ranks that r has heard of; each round passes on what the round before brought.
    std::vector<std::vector<bool>> heard(static_cast<size_t>(n));
    for (int r = 0; r < n; ++r) {
      heard[static_cast<size_t>(r)].assign(static_cast<size_t>(n), false);
      heard[static_cast<size_t>(r)][static_cast<size_t>(r)] = true;
    }
    std::vector<std::vector<int>> sources(static_cast<size_t>(n));
    size_t rounds = 0;
    for (int r = 0; r < n; ++r) {
      for (const step_t& step : world.plan(r).steps()) {
        if (step.kind == step_t::kind_t::recv) sources[static_cast<size_t>(r)].push_back(step.peer);
      }
      rounds = std::max(rounds, sources[static_cast<size_t>(r)].size());
    }
    for (size_t round = 0; round < rounds; ++round) {
      const auto before = heard;
      for (size_t r = 0; r < heard.size(); ++r) {
        const auto& news = before[static_cast<size_t>(sources[r][round])];
        for (size_t i = 0; i < news.size(); ++i) heard[r][i] = heard[r][i] || news[i];
      }
    }
    for (const auto& of : heard) EXPECT_EQ(std::count(of.begin(), of.end(), true), n);
    EXPECT_TRUE(world.run()) << n << " ranks";
  }
}

TEST(barrier, plan__takes_a_logarithmic_number_of_rounds) {
  plan_t plan(0, 64);
  plan_barrier(plan);
  EXPECT_EQ(plan.steps().size(), 6u * 3u);  // send, receive, join
}

}  // namespace
}  // namespace lci::coll::test
