// Tests of reduce.cpp.
#include "lci/coll/algorithms.hpp"
#include "tests/unit/coll/plan_world.hpp"

namespace lci::coll::test {
namespace {

class reduce_plan : public testing::TestWithParam<bool> {};

TEST_P(reduce_plan, root_gets_the_sum_and_contributions_stay) {
  const bool in_place = GetParam();
  for (const int n : RANK_COUNTS) {
    for (int root = 0; root < n; ++root) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{129}}) {
        std::vector<std::vector<uint64_t>> in(static_cast<size_t>(n));
        std::vector<uint64_t> expected(count, 0), out(count, 0);
        for (int r = 0; r < n; ++r) {
          for (size_t i = 0; i < count; ++i) {
            in[static_cast<size_t>(r)].push_back(item_of(r, i));
            expected[i] += item_of(r, i);
          }
        }
        const auto before = in;
        plan_world_t world(
            n,
            [&](plan_t& plan) {
              auto& mine = in[static_cast<size_t>(plan.me())];
              // Only the root has an output.
              uint64_t* into = plan.me() != root ? nullptr : in_place ? mine.data() : out.data();
              plan_reduce(plan, {mine.data(), into, count, sizeof(uint64_t)}, root);
            },
            add_u64);
        ASSERT_TRUE(world.run()) << n << " ranks, root " << root << ", count " << count;
        ASSERT_EQ(in_place ? in[static_cast<size_t>(root)] : out, expected);
        for (int r = 0; r < n; ++r) {
          if (r == root && in_place) continue;
          ASSERT_EQ(in[static_cast<size_t>(r)], before[static_cast<size_t>(r)]);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(in_place, reduce_plan, testing::Bool());

}  // namespace
}  // namespace lci::coll::test
