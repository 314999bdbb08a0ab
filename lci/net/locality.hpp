// Which of several cards a process uses: the fastest, of these the nearest, of these one by its
// number on the host. Pure functions of what topology has read. Callers: backends that find more
// than one card. Threads: pure functions. Always true: with the same cards every process of a host
// stays on one network, whatever is near to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lci::net {

// Where something sits in a machine: a PCI function, or the cores of a process.
struct place {
  std::vector<std::string> bridges;  // above a PCI function, the host bridge first
  std::vector<int> cpus;             // near it, ascending; empty: not known
  std::vector<int> packages;         // sockets of these, ascending
};

enum class nearness : std::uint8_t {
  same_switch,       // no way of one to the other leaves the PCIe switch
  same_host_bridge,  // through the processor's PCIe
  same_node,         // also what is not known
  same_package,
  far
};

// Two bridges in common are a switch: below a root port there is one link.
nearness nearness_of(const place& a, const place& b);
const char* text_of(nearness n) noexcept;

struct candidate {
  std::string name;
  std::uint64_t rate = 0;  // bits per second
  std::string network;     // the same word for cards that reach each other
  nearness to_gpu = nearness::same_node;
  nearness to_cores = nearness::same_node;
};

struct situation {
  bool has_gpu = false;  // that the process is known to use
  int local_rank = 0;
};

struct choice {
  // Equally good ones, each process of the host with another one in front. Empty: there are none.
  std::vector<std::size_t> cards;
  std::string why;                   // the first is chosen
  std::vector<std::string> why_not;  // by candidate; empty for the first
};

choice choose(std::span<const candidate> all, const situation& here);

}  // namespace lci::net
