#include "tools/perf/topology.hpp"

#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

namespace lci_perf {

namespace {

constexpr int MOST_CPUS = 1 << 16;

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return text;
}

// -1: there is no such list.
int first_of(const std::string& path) {
  const std::vector<int> cpus = parse_cpu_list(line_of(path));
  return cpus.empty() ? -1 : cpus.front();
}

// The highest level is shared by the most.
int last_cache(const std::string& folder) {
  int level = 0, first = -1;
  for (int index = 0; index < 8; ++index) {
    const std::string cache = folder + "/cache/index" + std::to_string(index);
    const int here = std::atoi(line_of(cache + "/level").c_str());
    if (here > level) {
      level = here;
      first = first_of(cache + "/shared_cpu_list");
    }
  }
  return first;
}

int node_of(const std::string& sysfs, int cpu) {
  for (const int node : parse_cpu_list(line_of(sysfs + "/node/online"))) {
    const std::vector<int> cpus =
        parse_cpu_list(line_of(sysfs + "/node/node" + std::to_string(node) + "/cpulist"));
    if (std::binary_search(cpus.begin(), cpus.end(), cpu)) return node;
  }
  return -1;
}

}  // namespace

const char* name_of(placement kind) {
  switch (kind) {
    case placement::hyperthreads:
      return "hyperthreads";
    case placement::near:
      return "near";
    case placement::far:
      return "far";
    case placement::other_node:
      return "other_node";
  }
  return "";
}

const char* description_of(placement kind) {
  switch (kind) {
    case placement::hyperthreads:
      return "hyperthreads of one core";
    case placement::near:
      return "two cores that share a cache";
    case placement::far:
      return "two cores without a common cache";
    case placement::other_node:
      return "two cores of different NUMA nodes";
  }
  return "";
}

topology::topology(const std::string& sysfs, const std::vector<int>& cpus) {
  for (const int cpu : cpus) {
    const std::string folder = sysfs + "/cpu/cpu" + std::to_string(cpu);
    int core = first_of(folder + "/topology/core_cpus_list");
    if (core < 0) core = first_of(folder + "/topology/thread_siblings_list");  // before Linux 5.3
    all_.push_back({cpu, core < 0 ? cpu : core, last_cache(folder), node_of(sysfs, cpu)});
  }
}

const topology::processor& topology::find(int cpu) const {
  return *std::find_if(all_.begin(), all_.end(),
                       [cpu](const processor& one) { return one.cpu == cpu; });
}

placement topology::between(int one, int other) const {
  const processor &a = find(one), &b = find(other);
  if (a.core == b.core) return placement::hyperthreads;
  if (a.node != b.node) return placement::other_node;
  return a.cache == b.cache ? placement::near : placement::far;
}

const char* topology::description(const cpu_pair& two) const {
  const placement kind = between(two.first, two.second);
  if (kind == placement::near && find(two.first).cache < 0) return "two cores";
  return description_of(kind);
}

bool topology::take(placement kind, std::size_t most, bool cores_may_repeat,
                    std::vector<cpu_pair>& taken) const {
  std::set<int> cpus, cores;
  for (const auto& [one, other] : taken) {
    cpus.insert({one, other});
    cores.insert({find(one).core, find(other).core});
  }
  const auto is_free = [&](const processor& one) {
    return cpus.count(one.cpu) == 0 && (cores_may_repeat || cores.count(one.core) == 0);
  };
  for (const processor& one : all_) {
    for (const processor& other : all_) {
      if (taken.size() >= most) return true;
      if (other.cpu <= one.cpu || !is_free(one) || !is_free(other)) continue;
      if (between(one.cpu, other.cpu) != kind) continue;
      taken.emplace_back(one.cpu, other.cpu);
      cpus.insert({one.cpu, other.cpu});
      cores.insert({one.core, other.core});
    }
  }
  return taken.size() >= most;
}

std::vector<cpu_pair> topology::pairs(placement kind, int most) const {
  std::vector<cpu_pair> taken;
  const auto wanted = static_cast<std::size_t>(most);
  if (!take(kind, wanted, false, taken)) take(kind, wanted, true, taken);
  return taken;
}

bool topology::share_cores(const std::vector<cpu_pair>& some) const {
  std::set<int> all;
  std::size_t count = 0;
  for (const auto& [one, other] : some) {
    const std::set<int> two{find(one).core, find(other).core};
    count += two.size();
    all.insert(two.begin(), two.end());
  }
  return all.size() < count;
}

std::vector<placement> topology::kinds() const {
  std::vector<placement> found;
  for (const placement kind : PLACEMENTS)
    if (!pairs(kind, 1).empty()) found.push_back(kind);
  return found;
}

int topology::cores() const {
  std::set<int> different;
  for (const processor& one : all_) different.insert(one.core);
  return static_cast<int>(different.size());
}

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    char* end = nullptr;
    const long first = std::strtol(part.c_str(), &end, 10);
    if (end == part.c_str()) return {};
    const long last = *end == '-' ? std::strtol(end + 1, &end, 10) : first;
    if (*end != 0 || first < 0 || last < first || last >= MOST_CPUS) return {};
    for (long cpu = first; cpu <= last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

std::vector<int> usable_cpus() {
  // Larger than cpu_set_t, which ends at 1024.
  std::vector<cpu_set_t> sets(16);
  const std::size_t bytes = sets.size() * sizeof(cpu_set_t);
  std::vector<int> cpus;
  if (sched_getaffinity(0, bytes, sets.data()) != 0) return {0};
  for (int cpu = 0; cpu < static_cast<int>(8 * bytes); ++cpu)
    if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, sets.data())) cpus.push_back(cpu);
  return cpus;
}

machine describe(const std::string& procfs) {
  machine found;
  found.model = "unknown processor";
  std::ifstream cpuinfo(procfs + "/cpuinfo");
  for (std::string text; std::getline(cpuinfo, text) && !text.empty();) {
    const std::size_t colon = text.find(": ");
    if (colon == std::string::npos) continue;
    if (text.rfind("model name", 0) == 0) found.model = text.substr(colon + 2);
    if (text.rfind("flags", 0) == 0)
      found.is_virtual = (text + " ").find(" hypervisor ") != std::string::npos;
  }
  std::ifstream(procfs + "/loadavg") >> found.load;
  utsname kernel{};
  uname(&kernel);
  found.system = std::string(kernel.sysname) + " " + kernel.release + " " + kernel.machine;
  return found;
}

}  // namespace lci_perf
