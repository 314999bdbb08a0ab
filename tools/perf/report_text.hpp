// Results as a table for people, and as CSV and JSON for programs.
// Called by: main, tests, the page. Threads: any, nothing is kept.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/perf/plan.hpp"
#include "tools/perf/statistics.hpp"
#include "tools/perf/topology.hpp"

namespace lci_perf {

// Everything that one run found out.
struct report {
  machine here;
  int cpus = 0, cores = 0;
  bool is_threads = false, is_shared = false, is_gpu = false;
  int rounds = 0;
  std::map<std::string, std::string> versions;  // of the libraries that ran
  std::vector<stage> stages;
};

std::string table_of(const report& all);
std::string csv_of(const report& all);
std::string json_of(const report& all);

// Shared with the page.
std::string number_text(double value);  // three digits that count
std::string row_text(const row& one);   // "latency am 8 B"
std::string stage_text(const stage& one, const report& all);
std::string machine_text(const report& all);
std::string load_text(const report& all);     // that other programs disturb it; empty: they do not
std::string handover_text(const stage& one);  // R before and after, and what it tells
// lci against entry `index`: above 1 lci is better. None for overlap, see points_over.
spread advantage_over(const row& one, std::size_t index);
// Overlap alone: so many points of a hundred more than entry `index`.
spread points_over(const row& one, std::size_t index);
// "lci x 1.50 [1.47..1.52]", "lci +12.0 points [..]", or empty; whether lci is behind for sure.
std::string comparison_text(const row& one, std::size_t index);
bool is_behind(const row& one, std::size_t index);
// Each library that was not measured anywhere in the stage, with the reason, once.
std::map<std::string, std::string> absent_from(const stage& one);

}  // namespace lci_perf
