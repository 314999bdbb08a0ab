// The command line of lci_perf: what is taken, and what is refused with a sentence that helps.
#include "tools/perf/arguments.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace lci_perf {
namespace {

std::string refusal(const std::vector<std::string>& words) {
  try {
    parse(words);
  } catch (const std::invalid_argument& problem) {
    return problem.what();
  }
  return "taken";
}

TEST(perf_arguments, parse__nothing_is_the_headline_against_all) {
  const arguments got = parse({});
  EXPECT_TRUE(got.measures.empty());
  EXPECT_TRUE(got.operations.empty());
  EXPECT_EQ(got.against, std::vector<std::string>{"all"});
  EXPECT_GE(got.rounds, 7);
  EXPECT_EQ(got.pairs, std::vector<int>{1});
}

TEST(perf_arguments, parse__measures_and_both_spellings_of_values) {
  const arguments got = parse({"rate", "latency", "--op", "put,get", "--pairs=1,2,4", "--rounds=9",
                               "--memory", "gpu", "--shared-device"});
  EXPECT_EQ(got.measures, (std::vector{measure::rate, measure::latency}));
  EXPECT_EQ(got.operations, (std::vector{operation::put, operation::get}));
  EXPECT_EQ(got.pairs, (std::vector{1, 2, 4}));
  EXPECT_EQ(got.rounds, 9);
  EXPECT_TRUE(got.is_gpu);
  EXPECT_TRUE(got.is_threads);  // a device is shared by threads
  EXPECT_TRUE(got.is_shared);
}

TEST(perf_arguments, parse__nonsense_is_refused_by_name) {
  EXPECT_EQ(refusal({"--frobnicate"}), "unknown option --frobnicate; --help lists all");
  EXPECT_EQ(refusal({"--threads=yes"}), "--threads takes no value");
  EXPECT_EQ(refusal({"--op", "am,put,am"}), "--op: \"am\" is given twice");
  EXPECT_EQ(refusal({"rate", "rate"}), "\"rate\" is given twice");
  EXPECT_EQ(refusal({"--op"}), "--op needs a value");
  EXPECT_EQ(refusal({"--op", "send"}), "--op: \"send\" is none of am get put sendrecv");
  EXPECT_EQ(refusal({"speed"}), "\"speed\" is none of bandwidth latency overlap rate");
  EXPECT_EQ(refusal({"--rounds", "0"}), "--rounds: \"0\" is not a number from 1 to 1000");
  EXPECT_EQ(refusal({"--rounds", "-1"}), "--rounds: \"-1\" is not a number from 1 to 1000");
  EXPECT_EQ(refusal({"--pairs", "1,,2"}), "--pairs: \"1,,2\" has an empty part");
  EXPECT_EQ(refusal({"--sizes", "8..4"}), "--sizes: \"4\" is not a size from 8 to 1024M");
  EXPECT_EQ(refusal({"--sizes", "1M..8"}), "--sizes: \"1M..8\" goes down");
  EXPECT_EQ(refusal({"--sizes", "8X"}), "--sizes: \"X\" is none of  B K KiB M MiB");
}

TEST(perf_arguments, parse_numbers__as_many_as_there_are_and_none_outside) {
  EXPECT_EQ(parse_numbers("2", 2, 16), (std::vector{2}));
  EXPECT_EQ(parse_numbers("4,2,16", 2, 16), (std::vector{4, 2, 16}));
  for (const char* const bad : {"", "1", "2,,4", "17", "2;4", "-2", "2,2", "two"})
    EXPECT_THROW(parse_numbers(bad, 2, 16), std::invalid_argument) << bad;
}

TEST(perf_arguments, parse_sizes__lists_and_ranges_ascending_and_once) {
  using sizes = std::vector<std::uint64_t>;
  EXPECT_EQ(parse_sizes("8"), sizes{8});
  EXPECT_EQ(parse_sizes("64K,8"), (sizes{8, 65536}));
  EXPECT_EQ(parse_sizes("8..64"), (sizes{8, 16, 32, 64}));
  EXPECT_EQ(parse_sizes("1K..4K,2K,1MiB"), (sizes{1024, 2048, 4096, 1 << 20}));
  EXPECT_EQ(parse_sizes("8..64M").size(), 24u);
}

TEST(perf_arguments, size_text__has_the_largest_unit_that_is_exact) {
  EXPECT_EQ(size_text(8), "8 B");
  EXPECT_EQ(size_text(1025), "1025 B");
  EXPECT_EQ(size_text(65536), "64 KiB");
  EXPECT_EQ(size_text(64 << 20), "64 MiB");
}

TEST(perf_arguments, usage__fits_one_screen_and_names_every_option) {
  const std::string usage = USAGE;
  EXPECT_LE(std::count(usage.begin(), usage.end(), '\n'), 40);
  std::size_t begin = 0;
  for (std::size_t end = usage.find('\n'); end != std::string::npos;
       end = usage.find('\n', begin)) {
    EXPECT_LE(end - begin, 100u) << usage.substr(begin, end - begin);
    begin = end + 1;
  }
  for (const char* option :
       {"--op", "--sizes", "--pairs", "--threads", "--shared-device", "--memory", "--transport",
        "--placement", "--against", "--rounds", "--time", "--messages", "--csv", "--json", "--html",
        "--svg", "--rivals", "--list"})
    EXPECT_NE(usage.find(option), std::string::npos) << option;
}

}  // namespace
}  // namespace lci_perf
