// What the lcrun that a user has started sends to the lcrun on each host: over the standard input
// of ssh, because anyone can read a command line and a key is part of it. Orders come behind it
// (orders.hpp), and the end of the stream ends the ranks: whatever cuts the connection, none stays
// behind.
//
// The bytes: a decimal length and a line feed, then strings that each end with a zero byte.
// Threads: single. Always true: bytes that do not parse are refused as a whole.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/lcrun/options.hpp"

namespace lcrun {

struct mission {
  options opts;           // the user's, except hosts; opts.first and opts.local say which ranks
  std::string directory;  // to work in
  std::string secret;     // the job's
  // A line that no program can know. The agent writes it among the job's output after each page
  // that it was asked for and, with line_stream::FAILED, at its end if that is with the status by
  // which ssh tells that it has lost a host. Its lcrun takes it out.
  std::string page_mark;
  std::vector<std::string> environment;  // "NAME=VALUE"
  std::vector<std::string> command;
};

// The part that is the same for all hosts: a secret, a mark, an address (the option's, else this
// one), a port.
mission make_mission(const options& opts, const std::string& address);
std::string to_bytes(const mission& m);
// Parses the strings after the length.
std::optional<mission> parse_mission(std::string_view bytes);
// Reads it from the standard input; throws argument_error when there is none.
mission read_mission(int fd);
// The variables of lci that ranks on other hosts also get.
std::vector<std::string> variables_for_others();

}  // namespace lcrun
