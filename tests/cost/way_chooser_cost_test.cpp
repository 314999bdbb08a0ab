// What does it cost a large message that its way is measured? Threads: the test's.
#include <gtest/gtest.h>

#include <cstdio>

#include "backends/shm/way_chooser.hpp"
#include "tests/cost/net_pair.hpp"
#include "tests/support/step_counter.hpp"

namespace lci::test {

TEST(way_chooser_cost, pick_and_note__take_few_instructions_and_nothing_expensive) {
  if (const std::string why = step_counter_missing(); !why.empty()) GTEST_SKIP() << why;
  const step_report report = count_steps([] {
    shm::way_chooser chooser;
    constexpr std::size_t SIZE = 256 * 1024;
    for (int i = 0; i < 300; ++i) {
      step_begin(0);
      const shm::copy_way way = chooser.pick(SIZE, false, 7).way;
      chooser.note(SIZE, false, way, 1000u * (1u + static_cast<unsigned>(way)));
      step_end();
    }
  });
  ASSERT_EQ(report.failure, "");
  std::vector<std::uint64_t> instructions;
  for (const step_section& s : report.sections) {
    instructions.push_back(s.instructions);
    EXPECT_EQ(s.locked + s.system_calls, 0u);
  }
  const std::uint64_t usual = median(instructions);
  const std::uint64_t most = *std::max_element(instructions.begin(), instructions.end());
  std::printf("pick and note: %llu instructions, most %llu\n",
              static_cast<unsigned long long>(usual), static_cast<unsigned long long>(most));
  EXPECT_LE(usual, 170u);  // gcc 13: 157
  EXPECT_LE(most, 400u);
}

}  // namespace lci::test
