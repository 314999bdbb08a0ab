#include "tools/lcrun/hosts.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lci/base/env.hpp"
#include "lci/boot/fd.hpp"
#include "lci/errors.hpp"

namespace lcrun {

namespace {

constexpr int NO_LIMIT = -1;

// The path of this program; it must be the same on every host.
std::string own_path() {
  char path[4096];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  if (n <= 0)
    throw lci::backend_error("cannot read /proc/self/exe: " + lci::boot::errno_text(errno));
  return std::string(path, static_cast<std::size_t>(n));
}

std::string quote_for_shell(const std::string& word) {
  std::string out = "'";
  for (const char letter : word)
    out += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return out + "'";
}

// The count follows the only colon; with more colons it is an IPv6 address.
host_share parse_host(std::string_view entry) {
  host_share out{std::string(entry), 0, NO_LIMIT};
  const std::size_t colon = entry.find(':');
  if (colon != std::string_view::npos && entry.find(':', colon + 1) == std::string_view::npos) {
    out.name = entry.substr(0, colon);
    out.count = static_cast<int>(lci::base::env::parse_unsigned(
        "--hosts, ranks on " + out.name, entry.substr(colon + 1), 1, 1 << 20));
  }
  // ssh would take a name that begins so for an option.
  if (out.name.empty() || out.name[0] == '-')
    throw lci::argument_error("--hosts contains \"" + std::string(entry) +
                              "\": expected host names");
  return out;
}

}  // namespace

std::vector<host_share> share_ranks(std::string_view list, int nprocs) {
  std::vector<host_share> hosts;
  lci::base::env::for_each_entry(list, ",",
                                 [&](std::string_view e) { hosts.push_back(parse_host(e)); });
  if (hosts.empty()) throw lci::argument_error("--hosts is empty: expected host names, as in a,b");
  const bool counted = std::any_of(hosts.begin(), hosts.end(),
                                   [](const host_share& h) { return h.count != NO_LIMIT; });
  int first = 0, left = static_cast<int>(hosts.size());
  for (host_share& h : hosts) {
    const int rest = nprocs - first;
    const int even = (rest + left - 1) / left;
    --left;
    // In a list with counts, a host without one takes a single rank, as with other launchers.
    const int most = h.count != NO_LIMIT ? h.count : counted ? 1 : even;
    h.first = first;
    h.count = std::min(rest, most);
    first += h.count;
  }
  if (first < nprocs) {
    throw lci::argument_error("--hosts allows " + std::to_string(first) + " ranks, -n wants " +
                              std::to_string(nprocs));
  }
  hosts.erase(
      std::remove_if(hosts.begin(), hosts.end(), [](const host_share& h) { return h.count == 0; }),
      hosts.end());
  return hosts;
}

std::string address_of(const host_share& host) {
  const std::size_t at = host.name.find('@');
  return at == std::string::npos ? host.name : host.name.substr(at + 1);
}

std::vector<std::string> agent_command(std::string_view ssh, const host_share& host) {
  std::vector<std::string> words;
  lci::base::env::for_each_entry(ssh, " ", [&](std::string_view w) { words.emplace_back(w); });
  if (words.empty())
    throw lci::argument_error("--ssh is empty: expected a command, as in \"ssh -p 2222\"");
  words.push_back(host.name);
  words.push_back("exec " + quote_for_shell(own_path()) + " --agent");
  return words;
}

}  // namespace lcrun
