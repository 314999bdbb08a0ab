// The command line of lci_perf. Called by: main, tests; bench_threads takes its lists of numbers.
// Threads: any, nothing is kept.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/perf/board.hpp"

namespace lci_perf {

extern const char* const USAGE;

struct arguments {
  std::vector<measure> measures;  // empty: the headline, see plan.hpp
  std::vector<operation> operations;
  std::vector<std::uint64_t> sizes;
  std::vector<int> pairs{1};
  bool is_threads = false, is_shared = false, is_gpu = false;
  std::vector<std::string> transports;  // empty: what lci chooses
  std::string placement = "all";        // a kind, or "3,7"
  std::vector<std::string> against;     // rivals; "all" alone: every one that is known
  int rounds = 7;
  double block_ms = 10;              // how long one measurement of one library takes
  std::uint64_t messages = 0;        // of each measurement; 0: as many as block_ms allows
  std::string csv, json, html, svg;  // files; "-": standard output; empty: none
  std::string rivals;                // folder of their programs; empty: that of lci_perf
  bool is_list = false, is_help = false;
};

// Throws std::invalid_argument with a sentence for the user.
arguments parse(const std::vector<std::string>& words);

// "1,2,4", each once and from `least` (0 or more) to `most`. Throws as parse().
std::vector<int> parse_numbers(const std::string& text, int least, int most);
// "8", "64K", "1M"; and as lists have them, "8,64K" or "8..64M" for each power of two between.
std::vector<std::uint64_t> parse_sizes(const std::string& text);
std::string size_text(std::uint64_t bytes);  // "8 B", "64 KiB"

const char* name_of(measure what);
const char* name_of(operation op);

}  // namespace lci_perf
