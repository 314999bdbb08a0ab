#include "tools/lcrun/members.hpp"

#include <dirent.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "tools/lcrun/warden.hpp"

namespace lcrun {

std::string stat_behind_name(std::istream& stat) {
  // The name may contain anything, even a line feed. The buffer's iterator would throw if the
  // process has ended meanwhile.
  std::string text;
  std::getline(stat, text, '\0');
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos ? std::string() : text.substr(name_end + 1);
}

namespace {

// look(pid, its folder in /proc, with a slash at the end)
template <class Look>
void for_each_process(Look&& look) {
  struct closer {
    void operator()(DIR* d) const noexcept { ::closedir(d); }
  };
  const std::unique_ptr<DIR, closer> all(::opendir("/proc"));
  while (const dirent* const entry = all ? ::readdir(all.get()) : nullptr) {
    const auto pid = static_cast<pid_t>(std::atoi(entry->d_name));
    if (pid > 0) look(pid, "/proc/" + std::string(entry->d_name) + "/");
  }
}

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

// Of the signals that /proc/<pid>/status lists under that name.
bool is_in_set(pid_t pid, const std::string& name, int signal) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    return (std::strtoull(line.c_str() + name.size(), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  return false;
}

// A zombie has no environment any more.
bool is_stray(const std::string& folder, const std::string& variable) {
  const std::string environment = std::string(1, '\0') + text_of(folder + "environ");
  return environment.find(variable) != std::string::npos &&
         text_of(folder + "comm") != std::string(WARDEN_NAME) + "\n";
}

}  // namespace

process_groups::process_groups() {
  for_each_process([this](pid_t pid, const std::string& folder) {
    std::ifstream in(folder + "stat");
    char state = 0;
    int group = 0;
    if (std::sscanf(stat_behind_name(in).c_str(), " %c %*d %d", &state, &group) == 2)
      groups_[group].push_back({pid, state});
  });
  for (auto& [group, members] : groups_)
    std::sort(members.begin(), members.end(),
              [](const member& a, const member& b) { return a.pid < b.pid; });
}

const std::vector<member>& process_groups::of(pid_t group) const noexcept {
  static const std::vector<member> none;
  const auto at = groups_.find(group);
  return at == groups_.end() ? none : at->second;
}

void kill_strays(const std::string& socket) noexcept {
  constexpr int MOST_SCANS = 10;
  try {
    const std::string variable = std::string(1, '\0') + "LCI_LCRUN_SOCKET=" + socket + '\0';
    std::set<pid_t> killed;
    bool is_new = true;
    // Once more, as long as there is one that others have started meanwhile.
    for (int i = 0; i < MOST_SCANS && is_new; ++i) {
      is_new = false;
      for_each_process([&](pid_t pid, const std::string& folder) {
        if (!is_stray(folder, variable)) return;
        ::kill(pid, SIGKILL);
        is_new = killed.insert(pid).second || is_new;
      });
    }
  } catch (const std::exception&) {
    // Out of memory or of descriptors: what is in the groups of the ranks has been killed.
  }
}

bool handles(pid_t pid, int signal) { return is_in_set(pid, "SigCgt:", signal); }

bool ignores(pid_t pid, int signal) { return is_in_set(pid, "SigIgn:", signal); }

}  // namespace lcrun
