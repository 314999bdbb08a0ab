// What does the look at a remote name cost that each put and get takes, beside the look for an
// empty one that stood there before?
#include <gtest/gtest.h>

#include "lci/api/remote_name.hpp"
#include "tests/support/step_counter.hpp"

namespace lci::test {
namespace {

enum section_id { BEFORE, NOW };

[[gnu::noinline]] void look_for_empty(const rmr_t& rmr, int rank, const proto::core&) {
  if (rmr.is_empty()) [[unlikely]]
    api::throw_changed_rmr(rmr, rank);
}
[[gnu::noinline]] void look_at_name(const rmr_t& rmr, int rank, const proto::core& core) {
  api::check_rmr(rmr, rank, core);
}

TEST(rmr_cost, check__at_most_12_instructions_more) {
  if (const std::string why = step_counter_missing(); !why.empty()) GTEST_SKIP() << why;
  const step_report report = count_steps([] {
    proto::core core(0, 2, {16, 15}, 1);
    core.seal = proto::rmr_seal::of({7, 11});
    for (std::uint64_t i = 1; i <= 20; ++i) {
      rmr_t rmr;
      rmr.base = 0x7f0000000000 + i * 4096;
      rmr.opaque_rkey = i << 32 | i;
      rmr.mr_base = core.seal.check_of(rmr.base, rmr.opaque_rkey, 1);
      step_begin(BEFORE);
      look_for_empty(rmr, 1, core);
      step_end();
      step_begin(NOW);
      look_at_name(rmr, 1, core);
      step_end();
    }
  });
  ASSERT_EQ(report.failure, "");
  ASSERT_EQ(report.sections.size(), 40u);
  std::uint64_t most[2] = {}, lines = 0;
  for (const step_section& s : report.sections) {
    EXPECT_EQ(s.locked, 0u) << testing::PrintToString(s.expensive);
    EXPECT_EQ(s.system_calls, 0u) << testing::PrintToString(s.expensive);
    most[s.id] = std::max(most[s.id], s.instructions);
    lines = std::max<std::uint64_t>(lines, s.lines.size());
  }
  std::printf("a remote name: %llu instructions, %llu for an empty one; %llu cache lines\n",
              static_cast<unsigned long long>(most[NOW]),
              static_cast<unsigned long long>(most[BEFORE]),
              static_cast<unsigned long long>(lines));
  EXPECT_LE(most[NOW], most[BEFORE] + 12);
}

}  // namespace
}  // namespace lci::test
