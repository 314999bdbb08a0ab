// The command line of lcrun. Parsed by hand: the launcher needs nothing but the C++ library.
#pragma once

#include <string>
#include <vector>

namespace lcrun {

struct options {
  int nprocs = 0;                      // of the job
  bool tag_output = false;             // "[3] " before each line
  bool keep_going = false;             // a failing rank does not end the others
  bool bind_core = false;              // each rank has cores of its own
  double timeout_s = 0;                // 0 = none
  std::vector<std::string> variables;  // "NAME=VALUE", for the ranks
  std::string hosts;                   // empty: this host
  std::string ssh;                     // the command that reaches them
  std::string address;                 // of rank 0, as other hosts reach it
  int port = 0;                        // on which rank 0 listens; 0 = any
  char** command = nullptr;            // null-terminated, from argv
  bool help = false;
  // For an lcrun that another one has started: which of the ranks are here.
  bool agent = false;
  int first = 0, local = 0;
};

// Parses everything up to the first word that is not an option (or "--"), then the command. Returns
// false, with a reason in `why`, if that fails.
bool parse(int argc, char** argv, options& out, std::string& why);

extern const char* const USAGE;

}  // namespace lcrun
