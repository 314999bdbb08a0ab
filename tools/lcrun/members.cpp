#include "tools/lcrun/members.hpp"

#include <dirent.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

namespace lcrun {

std::string stat_behind_name(std::istream& stat) {
  // The name may contain anything, even a line feed. The buffer's iterator would throw if the
  // process has ended meanwhile.
  std::string text;
  std::getline(stat, text, '\0');
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos ? std::string() : text.substr(name_end + 1);
}

process_groups::process_groups() {
  struct closer {
    void operator()(DIR* d) const noexcept { ::closedir(d); }
  };
  const std::unique_ptr<DIR, closer> all(::opendir("/proc"));
  while (const dirent* const entry = all ? ::readdir(all.get()) : nullptr) {
    const auto pid = static_cast<pid_t>(std::atoi(entry->d_name));
    if (pid <= 0) continue;
    std::ifstream in("/proc/" + std::string(entry->d_name) + "/stat");
    char state = 0;
    int group = 0;
    if (std::sscanf(stat_behind_name(in).c_str(), " %c %*d %d", &state, &group) == 2)
      groups_[group].push_back({pid, state});
  }
  for (auto& [group, members] : groups_)
    std::sort(members.begin(), members.end(),
              [](const member& a, const member& b) { return a.pid < b.pid; });
}

const std::vector<member>& process_groups::of(pid_t group) const noexcept {
  static const std::vector<member> none;
  const auto at = groups_.find(group);
  return at == groups_.end() ? none : at->second;
}

bool handles(pid_t pid, int signal) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("SigCgt:")) continue;
    return (std::strtoull(line.c_str() + 7, nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  return false;
}

}  // namespace lcrun
