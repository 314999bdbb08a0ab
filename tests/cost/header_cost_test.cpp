// What do the headers cost: building a post_*_x with three options and calling it?
#include <gtest/gtest.h>

#include "lci.hpp"
#include "tests/support/step_counter.hpp"

namespace {

using lci::test::count_steps;

// Instructions for one call, with a library behind it that does next to nothing.
constexpr std::uint64_t BUDGET = 60;

TEST(post_am_x, three_options__within_the_budget) {
  if (const std::string why = lci::test::step_counter_missing(); !why.empty()) GTEST_SKIP() << why;
  static lci::device_t device(reinterpret_cast<void*>(0x1000));
  static lci::endpoint_t endpoint(reinterpret_cast<void*>(0x2000));
  static volatile int rank = 3;
  static std::uint64_t word = 7;
  const auto report = count_steps([] {
    lci::test::step_begin(1);
    lci::test::step_end();
    lci::test::step_begin(0);
    const lci::status_t answer = lci::post_am_x(rank, &word, sizeof word, lci::COMP_NULL, 5)
                                     .device(device)
                                     .endpoint(endpoint)
                                     .tag(9)();
    lci::test::step_end();
    EXPECT_TRUE(answer.is_done());
    EXPECT_EQ(answer.rank, 3);
  });
  ASSERT_EQ(report.failure, "");
  ASSERT_EQ(report.sections.size(), 2u);
  const auto& s = report.sections[1];
  const std::uint64_t instructions = s.instructions - report.sections[0].instructions;
  std::printf("post_am_x with three options: %llu instructions, %llu of its stack's lines\n",
              static_cast<unsigned long long>(instructions),
              static_cast<unsigned long long>(s.stack_lines));
  EXPECT_LE(instructions, BUDGET);
  EXPECT_GT(instructions, 10u) << "the call was not measured at all";
  EXPECT_EQ(s.locked, 0u);
  EXPECT_EQ(s.system_calls, 0u);
}

}  // namespace
