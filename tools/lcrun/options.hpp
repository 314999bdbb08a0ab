// The command line of lcrun. Parsed by hand: the launcher needs nothing but the C++ library.
#pragma once

#include <string>

namespace lcrun {

struct options {
  int nprocs = 0;
  bool tag_output = false;   // "[3] " before each line
  bool keep_going = false;   // a failing rank does not end the others
  double timeout_s = 0;      // 0 = none
  char** command = nullptr;  // null-terminated, from argv
  bool help = false;
};

// Everything up to the first word that is no option (or "--"), then the command. False with a
// reason when the command line is not one.
bool parse(int argc, char** argv, options& out, std::string& why);

extern const char* const USAGE;

}  // namespace lcrun
