// Ranks that call a collective differently: every one of them hears of it, nothing is sent or
// written, and the next collective works. Only where it is looked for: in debug builds, and with
// LCI_CHECK_COLLECTIVES=1.
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>

#include "tests/coll/data.hpp"
#include "tests/support/must_fire.hpp"

namespace lci::test {
namespace {

class disagreement : public testing::Test {
 protected:
  void SetUp() override {
    if (!compares_calls())
      GTEST_SKIP() << "no debug build, and LCI_CHECK_COLLECTIVES is not 1; or it is 0";
    if (get_rank_n() == 1) GTEST_SKIP() << "one rank agrees with itself";
  }
  void TearDown() override {
    if (IsSkipped()) return;
    const auto in = contribution(get_rank_me(), 10);
    std::vector<uint64_t> out(10);
    allreduce(in.data(), out.data(), 10, 8, add_u64);
    EXPECT_EQ(out, sum_of_all(10));
  }
  // A call that does not wait: progress tells, or the call itself if all ranks were faster.
  void expect_to_hear_later() {
    comp_t counter = alloc_counter();
    bool is_told = false;
    try {
      broadcast_x(values_, is_odd_one() ? 16 : 8, 0).comp(counter)();
      for (;;) progress();
    } catch (const argument_error& error) {
      is_told = std::strstr(error.what(), "count 16") != nullptr;
    }
    EXPECT_TRUE(is_told);
    EXPECT_EQ(counter_get(counter), 0);
    free_comp(&counter);
  }
  static bool is_odd_one() { return get_rank_me() == get_rank_n() - 1; }
  uint64_t values_[8] = {7, 7, 7, 7, 7, 7, 7, 7};
};

TEST_F(disagreement, size) {
  const size_t size = is_odd_one() ? 16 : 8;
  const std::string odd = "rank " + std::to_string(get_rank_n() - 1);
  EXPECT_TRUE(throws_with<argument_error>([&] { broadcast(values_, size, 0); },
                                          {odd, "count 16", "count 8"}));
  EXPECT_TRUE(throws_with<argument_error>([&] { allgather(values_, values_, size); },
                                          {"allgather", "count 16", "count 8"}));
  for (const uint64_t value : values_) EXPECT_EQ(value, 7u);
}

TEST_F(disagreement, root) {
  const int root = is_odd_one() ? 1 : 0;
  uint64_t out = 9;
  EXPECT_TRUE(throws_with<argument_error>([&] { broadcast(values_, 8, root); },
                                          {"broadcast", "root 0", "root 1"}));
  EXPECT_TRUE(throws_with<argument_error>([&] { reduce(values_, &out, 1, 8, add_u64, root); },
                                          {"reduce", "root 0", "root 1"}));
  EXPECT_EQ(out, 9u);
}

TEST_F(disagreement, operation) {
  const auto call = [&] {
    if (is_odd_one()) return barrier();
    broadcast(values_, 8, 0);
  };
  EXPECT_TRUE(throws_with<argument_error>(call, {"barrier", "broadcast"}));
}

TEST_F(disagreement, with_a_completion_object__progress_tells) { expect_to_hear_later(); }

// All ranks have to count alike, whether they wait or not: TearDown() shows that they did.
TEST_F(disagreement, of_a_rank_that_waits_with_others_that_do_not) {
  if (get_rank_me() == 0) {
    EXPECT_TRUE(throws_with<argument_error>([&] { broadcast(values_, 8, 0); },
                                            {"broadcast", "count 16", "count 8"}));
  } else {
    expect_to_hear_later();
  }
  barrier();
}

}  // namespace
}  // namespace lci::test
