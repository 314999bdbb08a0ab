#include "tools/lcrun/options.hpp"

#include <string_view>

#include "lci/base/env.hpp"
#include "lci/boot/bootstrap.hpp"
#include "lci/errors.hpp"

namespace lcrun {

const char* const USAGE =
    "usage: lcrun -n <nprocs> [options] <command> [args...]\n"
    "  starts <nprocs> copies of <command> on this host as one job\n"
    "  --tag-output      put the rank before each line of output: [3] text\n"
    "  --timeout <s>     end the job after <s> seconds, with status 124\n"
    "  --keep-going      let the other processes finish when one fails\n"
    "  --help            print this\n";

namespace {

// A copy of everything for each rank has to fit one host.
constexpr int MOST = 4096;

// The value of an option: the rest of the word, or the next word.
std::string_view value_of(std::string_view name, int argc, char** argv, int& at) {
  const std::string_view word = argv[at];
  if (word.size() > name.size()) {
    std::string_view rest = word.substr(name.size());
    if (rest[0] == '=') rest.remove_prefix(1);
    return rest;
  }
  if (++at >= argc) throw lci::argument_error(std::string(name) + " needs a value");
  return argv[at];
}

void take_option(int argc, char** argv, int& at, options& out) {
  namespace env = lci::base::env;
  const std::string_view word = argv[at];
  if (word == "--help" || word == "-h") {
    out.help = true;
  } else if (word == "--tag-output") {
    out.tag_output = true;
  } else if (word == "--keep-going") {
    out.keep_going = true;
  } else if (word.starts_with("--timeout")) {
    out.timeout_s =
        env::parse_double("--timeout", value_of("--timeout", argc, argv, at), 0.001, 1e6);
  } else if (word.starts_with("-n")) {
    const char* const name = word.starts_with("-np") ? "-np" : "-n";
    out.nprocs =
        static_cast<int>(env::parse_unsigned(name, value_of(name, argc, argv, at), 1, MOST));
  } else {
    throw lci::argument_error("unknown option " + std::string(word));
  }
}

}  // namespace

bool parse(int argc, char** argv, options& out, std::string& why) {
  int at = 1;
  try {
    for (; at < argc && argv[at][0] == '-'; ++at) {
      if (std::string_view(argv[at]) == "--") {
        ++at;
        break;
      }
      take_option(argc, argv, at, out);
      if (out.help) return true;
    }
  } catch (const lci::argument_error& error) {
    why = error.what();
    return false;
  }
  if (out.nprocs == 0)
    why = "-n <nprocs> is missing";
  else if (at >= argc)
    why = "the command is missing";
  else
    out.command = argv + at;
  return out.command != nullptr;
}

}  // namespace lcrun
