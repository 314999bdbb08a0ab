// Every vector as the job that a GPU does as well, here by the processor.
#include "tests/unit/wqe/golden_jobs.hpp"

#include <gtest/gtest.h>

namespace {

using namespace lci::test;

std::string done_here(golden_job& g, int change_result = -1) {
  memory place(g.before.size() + 1);
  place.put(0, g.before);
  g.job.memory = place.data();
  do_job(g.job);
  if (change_result >= 0) g.job.results[change_result] ^= 1;
  return g.difference(g.job, place.get(0, g.before.size()));
}

TEST(golden_jobs, do_job__225_of_225_vectors) {
  std::vector<golden_job> jobs = all_golden_jobs();
  EXPECT_EQ(vectors_of(jobs), 225u);
  std::size_t right = 0;
  for (golden_job& g : jobs) {
    const std::string difference = done_here(g);
    EXPECT_EQ(difference, "");
    right += difference.empty();
  }
  EXPECT_EQ(right, jobs.size());
}

// Each comparison fires: every result that a vector names, and a byte of memory.
TEST(golden_jobs, difference__sees_each_changed_result) {
  std::vector<golden_job> jobs = all_golden_jobs();
  std::size_t changed = 0, seen = 0;
  for (golden_job& g : jobs) {
    for (std::size_t i = 0; i < g.expected.size(); ++i) {
      if (!g.expected[i]) continue;
      ++changed;
      seen += !done_here(g, static_cast<int>(i)).empty();
    }
    if (g.after.empty()) continue;
    g.after[0] ^= 1;
    ++changed;
    seen += !done_here(g).empty();
    g.after[0] ^= 1;
  }
  EXPECT_GT(changed, 1500u);
  EXPECT_EQ(seen, changed);
}

}  // namespace
