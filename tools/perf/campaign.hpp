// Carries out a plan: starts the libraries of a stage, measures them in turn, and writes the values
// into its rows. Called by: main. Threads: single.
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/perf/plan.hpp"

namespace lci_perf {

// What a long run does, on standard error: in place on a terminal, elsewhere every few seconds.
class progress_line {
 public:
  progress_line(std::FILE* to, bool is_terminal) : to_(to), is_terminal_(is_terminal) {}
  ~progress_line() { clear(); }
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;

  void set(std::string text, double share);
  void tick();
  void clear();

 private:
  std::FILE* to_;
  bool is_terminal_;
  std::string text_;
  double share_ = 0;
  std::uint64_t begin_ns_ = now_ns(), told_ns_ = 0;
  bool is_shown_ = false;
};

class campaign {
 public:
  campaign(const arguments& asked, std::vector<contender> who, progress_line& line)
      : asked_(asked), who_(std::move(who)), line_(line) {}

  // Measures all rows of a stage; `share` is where that stage begins and ends in the whole.
  void run(stage& one, double begin, double end);
  // What libraries said that they are, by name.
  const std::map<std::string, std::string>& versions() const { return versions_; }

 private:
  using team = std::vector<std::unique_ptr<contestant>>;
  team start(stage& one, std::vector<std::string>& why_not);
  void measure_row(stage& one, row& what, team& all, const std::vector<std::string>& why_not);
  static void warm_up(const row& what, contestant& who);
  std::uint64_t calibrate(const row& what, contestant& who);
  void drop(std::unique_ptr<contestant>& who, entry& of, const char* problem);

  const arguments& asked_;
  std::vector<contender> who_;
  progress_line& line_;
  std::map<std::string, std::string> versions_;
};

}  // namespace lci_perf
