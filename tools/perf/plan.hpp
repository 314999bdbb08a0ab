// What is measured: stages, each with processes of its own, and their rows.
// Called by: main, campaign. Threads: any, nothing is kept.
#pragma once

#include <string>
#include <vector>

#include "tools/perf/arguments.hpp"
#include "tools/perf/contestant.hpp"
#include "tools/perf/topology.hpp"

namespace lci_perf {

// What one library did in one row.
struct entry {
  std::string name;
  std::vector<double> values;  // of each round, in the row's unit
  std::uint64_t messages = 0;  // that arrived in all rounds, all pairs together
  std::uint64_t expected = 0;  // messages that were sent
  std::string why_not;         // not empty: not measured, and why
};

struct row {
  measure what;
  operation op;
  std::uint64_t size;
  std::vector<entry> entries;  // lci's first

  const char* unit() const;
  bool less_is_better() const { return what == measure::latency; }
};

// Rows that the same processes measure.
struct stage {
  std::string place;      // of its processors, for people
  std::string kind;       // "near", ..., or the two processors that were asked for
  std::string transport;  // of lci; empty: what it chooses
  shape processes;
  std::string note;  // about the place: fewer processors than seats, for example
  double r_before_ns = 0, r_after_ns = 0;
  std::vector<row> rows;
};

// Throws std::invalid_argument for a place that this machine does not have, and for no row at all.
std::vector<stage> make_plan(const arguments& asked, const topology& here,
                             const std::vector<int>& cpus);

// One measurement of about `count` messages; whole windows.
order make_order(const row& what, std::uint64_t count);

// What the results of all seats mean, in the row's unit.
double value_of(const row& what, const order& given, const std::vector<result>& results);
std::uint64_t messages_of(const std::vector<result>& results);
// How many messages have to arrive at all seats.
std::uint64_t expected_of(const row& what, const order& given, int pairs);

}  // namespace lci_perf
