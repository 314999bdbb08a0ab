// How two processors of this machine are to each other, as the kernel describes it in sysfs, and
// what the machine is called.
// Called by: main, tests with made-up trees. Threads: immutable after read.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lci_perf {

// Nearest first.
enum class placement { hyperthreads, near, far, other_node };
constexpr placement PLACEMENTS[] = {placement::hyperthreads, placement::near, placement::far,
                                    placement::other_node};
const char* name_of(placement kind);         // as options have it
const char* description_of(placement kind);  // for people

using cpu_pair = std::pair<int, int>;

class topology {
 public:
  // Of the processors in `cpus`; `sysfs` is the folder that the kernel has as
  // /sys/devices/system. What it does not say counts as "near".
  topology(const std::string& sysfs, const std::vector<int>& cpus);

  placement between(int one, int other) const;
  // What is known of the two, for people.
  const char* description(const cpu_pair& two) const;
  // Disjoint pairs of this kind, as many as there are but at most `most`; no two of them share a
  // core while there are enough cores.
  std::vector<cpu_pair> pairs(placement kind, int most) const;
  bool share_cores(const std::vector<cpu_pair>& some) const;  // two of these have a core in common
  std::vector<placement> kinds() const;                       // those that have a pair here
  int cores() const;                                          // with hyperthreads counted once

 private:
  struct processor {
    int cpu;
    int core;   // the first processor of its core
    int cache;  // the first processor that shares its last-level cache; -1: unknown
    int node;   // of memory; -1: unknown
  };
  const processor& find(int cpu) const;
  bool take(placement kind, std::size_t most, bool cores_may_repeat,
            std::vector<cpu_pair>& taken) const;

  std::vector<processor> all_;
};

// "0-2,5" as sysfs writes it; empty for what is not such a list.
std::vector<int> parse_cpu_list(const std::string& text);

// The processors that this process may use, ascending.
std::vector<int> usable_cpus();

struct machine {
  std::string model;        // of its processors
  std::string system;       // distribution and kernel
  bool is_virtual = false;  // the kernel's topology is then what the hypervisor wants to show
  double load = 0;          // processors that other programs used in the last minute
};
// `procfs` is the folder that the kernel has as /proc.
machine describe(const std::string& procfs);

}  // namespace lci_perf
