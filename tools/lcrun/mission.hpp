// What the lcrun that a user has started tells the one on each host: over the standard input of
// ssh, because a command line is for everybody to read and a key is among it. After it, each byte
// is a signal for the ranks, and the end of the stream ends them: whatever cuts the connection, no
// rank stays behind.
//
// The bytes: a decimal length and a line feed, then strings that end with a zero byte each.
// Threads: single. Always true: what does not parse is refused as a whole.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/lcrun/options.hpp"

namespace lcrun {

struct mission {
  options opts;           // of the user, but for hosts; opts.first and opts.local say which ranks
  std::string directory;  // to work in
  std::string secret;     // of the job
  // A line that no program can know. The agent writes it among the job's output after each page
  // that it was asked for, and its lcrun takes it out.
  std::string page_mark;
  std::vector<std::string> environment;  // "NAME=VALUE"
  std::vector<std::string> command;
};

// What is the same for all hosts: a secret, a mark, an address (the option's, else this one) and a
// port.
mission make_mission(const options& opts, const std::string& address);
std::string to_bytes(const mission& m);
// The strings after the length.
std::optional<mission> parse_mission(std::string_view bytes);
// From the standard input; throws argument_error when there is none.
mission read_mission(int fd);
// Those of our variables that ranks on other hosts get too.
std::vector<std::string> variables_for_others();

}  // namespace lcrun
