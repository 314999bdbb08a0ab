// Tests of allreduce.cpp.
#include "lci/coll/algorithms.hpp"
#include "tests/unit/coll/plan_world.hpp"

namespace lci::coll::test {
namespace {

class allreduce_plan : public testing::TestWithParam<std::tuple<allreduce_algorithm_t, bool>> {};

TEST_P(allreduce_plan, every_rank_gets_the_sum) {
  const auto [algorithm, in_place] = GetParam();
  for (const int n : RANK_COUNTS) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{5}, size_t{9001}}) {
      for (const int nsteps : {1, n, 3 * n}) {
        std::vector<std::vector<uint64_t>> in(static_cast<size_t>(n)), out(static_cast<size_t>(n));
        std::vector<uint64_t> expected(count, 0);
        for (int r = 0; r < n; ++r) {
          for (size_t i = 0; i < count; ++i) {
            in[static_cast<size_t>(r)].push_back(item_of(r, i));
            expected[i] += item_of(r, i);
          }
          out[static_cast<size_t>(r)].assign(count, 0);
        }
        plan_world_t world(
            n,
            [&, algo = algorithm, place = in_place](plan_t& plan) {
              const size_t me = static_cast<size_t>(plan.me());
              uint64_t* into = place ? in[me].data() : out[me].data();
              plan_allreduce(plan, {in[me].data(), into, count, sizeof(uint64_t)}, algo, nsteps);
            },
            add_u64);
        ASSERT_TRUE(world.run()) << n << " ranks, count " << count << ", nsteps " << nsteps;
        for (const auto& result : in_place ? in : out) ASSERT_EQ(result, expected);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    all, allreduce_plan,
    testing::Combine(testing::Values(allreduce_algorithm_t::none, allreduce_algorithm_t::direct,
                                     allreduce_algorithm_t::tree, allreduce_algorithm_t::ring),
                     testing::Bool()));

// A sum of floating-point numbers depends on its order; ranks must not differ in their result.
TEST_P(allreduce_plan, every_rank_gets_the_same_bits) {
  const auto [algorithm, in_place] = GetParam();
  constexpr int n = 5;
  constexpr size_t count = 23;
  std::vector<std::vector<double>> in(n), out(n, std::vector<double>(count));
  for (size_t r = 0; r < n; ++r) {
    for (size_t i = 0; i < count; ++i)
      in[r].push_back(1.0 / static_cast<double>(3 + r * count + i));
  }
  plan_world_t world(
      n,
      [&, algo = algorithm, place = in_place](plan_t& plan) {
        const size_t me = static_cast<size_t>(plan.me());
        double* into = place ? in[me].data() : out[me].data();
        plan_allreduce(plan, {in[me].data(), into, count, sizeof(double)}, algo, n);
      },
      [](const void* from, void* into, size_t items) {
        for (size_t i = 0; i < items; ++i) {
          static_cast<double*>(into)[i] += static_cast<const double*>(from)[i];
        }
      });
  ASSERT_TRUE(world.run());
  const auto& results = in_place ? in : out;
  for (const auto& result : results) {
    EXPECT_EQ(std::memcmp(result.data(), results[0].data(), count * sizeof(double)), 0);
  }
}

TEST(allreduce, choose__small_by_ranks_and_large_by_ring) {
  EXPECT_EQ(choose_allreduce(65536, 8), allreduce_algorithm_t::direct);
  EXPECT_EQ(choose_allreduce(65536, 9), allreduce_algorithm_t::tree);
  EXPECT_EQ(choose_allreduce(65537, 2), allreduce_algorithm_t::ring);
}

}  // namespace
}  // namespace lci::coll::test
