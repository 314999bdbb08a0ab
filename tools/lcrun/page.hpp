// The page of what the ranks wait for: from the ranks' reports to lines for people. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lci/base/report.hpp"

namespace lcrun {

struct rank_view {
  int rank = -1;
  bool has_answered = false;
  std::string why_not;  // if it has not: "is stopped (pid 7, state T)"
  std::vector<lci::base::report::record> records;
  std::uint64_t rounds_before = 0, rounds = 0;  // of progress, at the first and the last question
  std::uint64_t left_out = 0;                   // records for which there was no room
};

// "0-3,5"; for a single rank "7".
std::string list_ranks(std::vector<int> ranks);
// What does not fit together, one sentence each.
std::vector<std::string> find_mismatches(const std::vector<rank_view>& ranks);
// The whole page, each line with its end. why: "on request", "timeout after 2 s". size: of the job.
std::string write_page(const std::vector<rank_view>& ranks, int size, const std::string& why);

}  // namespace lcrun
