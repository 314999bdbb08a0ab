// Why a process ended, and what happens to those that its launcher leaves behind.
#include "tools/perf/contestant.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

namespace lci_perf {
namespace {

TEST(perf_contestant, last_sentence__is_the_last_line_with_a_letter) {
  EXPECT_EQ(last_sentence("one\n  no slots left  \n-----\n  \n"), "no slots left");
  EXPECT_EQ(last_sentence("alone"), "alone");
  EXPECT_EQ(last_sentence("---\n\n"), "");
  EXPECT_EQ(last_sentence(""), "");
}

std::string failure_of(const std::string& script) {
  try {
    const contestant one({"made-up", {}, {"/bin/sh", "-c", script}, {}, ""}, {}, nullptr);
  } catch (const std::runtime_error& problem) {
    return problem.what();
  }
  return "it started";
}

TEST(perf_contestant, start__a_process_that_ends_says_why) {
  EXPECT_EQ(failure_of("echo no card here; echo ----; exit 3"),
            "its process ended with status 3: no card here");
}

TEST(perf_contestant, end__what_a_failed_process_left_behind_is_ended) {
  const std::string file =
      testing::TempDir() + "/lci_perf_left_behind." + std::to_string(::getpid());
  EXPECT_NE(failure_of("sleep 1000 & echo $! > " + file + "; exit 3"), "it started");
  int left = 0;
  std::ifstream(file) >> left;
  ASSERT_GT(left, 0);
  // It may be a zombie for a moment, if nobody reaps it: then its name has no program any more.
  std::string program;
  std::getline(std::ifstream("/proc/" + std::to_string(left) + "/cmdline"), program, '\0');
  EXPECT_EQ(program, "");
  std::remove(file.c_str());
}

}  // namespace
}  // namespace lci_perf
