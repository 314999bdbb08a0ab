#include "tools/lcrun/options.hpp"

#include <string_view>

#include "lci/base/env.hpp"
#include "lci/boot/bootstrap.hpp"
#include "lci/errors.hpp"

namespace lcrun {

const char* const USAGE =
    "usage: lcrun -n <nprocs> [options] <command> [args...]\n"
    "  runs <nprocs> copies of <command> as one job, and ends the job when one fails\n"
    "  --hosts <a,b,...>   run on these hosts instead of this one, in blocks of ranks; a:2,b:6\n"
    "                      limits the ranks per host. lcrun and <command> need the\n"
    "                      same path on all hosts\n"
    "  --ssh <command>     command that starts lcrun on a host (default: $LCI_SSH, else\n"
    "                      ssh -o BatchMode=yes); it must not ask for anything\n"
    "  --address <addr>    address of the first host for the others (default: its name in "
    "--hosts)\n"
    "  --port <port>       port on which rank 0 listens for the others (default: any)\n"
    "  --bind core|none    bind each rank to its own cores (default: none)\n"
    "  --env NAME=VALUE    set a variable for the ranks; may be repeated\n"
    "  --tag-output        prefix each line of output with the rank: [3] text\n"
    "  --timeout <s>       end the job after <s> seconds with status 124, and first print who "
    "waits\n"
    "                      for what; SIGUSR1 prints this at once, and the job continues\n"
    "  --keep-going        let the other processes finish when one fails\n"
    "  --help              print this help\n"
    "The exit status is that of the first process that failed; 127 or 126 if <command> cannot "
    "be run.\n";

namespace {

// Each host must have room for a copy of everything for each rank.
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

bool is_option(std::string_view word, std::string_view name) {
  return word == name || (word.starts_with(name) && word[name.size()] == '=');
}

std::string take_variable(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals != std::string_view::npos && equals > 0) return std::string(text);
  throw lci::argument_error("--env \"" + std::string(text) + "\": expected NAME=VALUE");
}

bool take_binding(std::string_view text) {
  if (text == "core" || text == "none") return text == "core";
  throw lci::argument_error("--bind \"" + std::string(text) + "\": expected core or none");
}

// Options with a text; false when the word is not one of them.
bool take_text(std::string_view word, int argc, char** argv, int& at, options& out) {
  const auto value = [&](const char* name) { return value_of(name, argc, argv, at); };
  if (is_option(word, "--hosts"))
    out.hosts = value("--hosts");
  else if (is_option(word, "--ssh"))
    out.ssh = value("--ssh");
  else if (is_option(word, "--address"))
    out.address = value("--address");
  else if (is_option(word, "--env"))
    out.variables.push_back(take_variable(value("--env")));
  else if (is_option(word, "--bind"))
    out.bind_core = take_binding(value("--bind"));
  else
    return false;
  return true;
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
  } else if (word == "--agent") {
    out.agent = true;
  } else if (is_option(word, "--port")) {
    out.port = static_cast<int>(
        env::parse_unsigned("--port", value_of("--port", argc, argv, at), 1, 65535));
  } else if (is_option(word, "--timeout")) {
    out.timeout_s =
        env::parse_double("--timeout", value_of("--timeout", argc, argv, at), 0.001, 1e6);
  } else if (take_text(word, argc, argv, at, out)) {
    return;
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
      if (out.help || out.agent) return true;
    }
  } catch (const lci::argument_error& error) {
    why = error.what();
    return false;
  }
  if (out.nprocs == 0)
    why = "-n <nprocs> is missing";
  else if (out.hosts.empty() && (!out.ssh.empty() || !out.address.empty() || out.port != 0))
    why = "--ssh, --address and --port need --hosts";
  else if (at >= argc)
    why = "the command is missing";
  else
    out.command = argv + at;
  out.local = out.nprocs;
  return out.command != nullptr;
}

}  // namespace lcrun
