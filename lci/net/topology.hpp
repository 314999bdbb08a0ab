// Where PCI functions and this process sit in the machine, as hwloc or else the kernel's files say.
// Callers: backends, when they open a network or register memory of a GPU. Threads: any. Always
// true: what is not known is empty, which locality takes for near; nothing throws but bad_alloc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lci/net/locality.hpp"

namespace lci::net {

class topology {
 public:
  // sysfs: where the kernel's files are. xml: a machine that hwloc has written down, instead of
  // this one.
  explicit topology(std::string sysfs = "/sys", const char* xml = nullptr);
  ~topology();
  topology(const topology&) = delete;
  topology& operator=(const topology&) = delete;

  // "0000:3b:00.0", in any case.
  place of_pci(std::string address) const;
  // The cores that the calling thread may run on.
  place of_process() const;
  place of_cpus(std::vector<int> cpus) const;

 private:
  place by_kernel(const std::string& address) const;
  bool ask_hwloc(const std::string& address, place& out) const;
  std::vector<int> packages_of(const std::vector<int>& cpus) const;

  const std::string sysfs_;
  void* hwloc_ = nullptr;  // hwloc_topology_t; null: not built with it, or it has failed
};

// The numbers of "0-3,8"; of anything else those before the nonsense.
std::vector<int> parse_cpu_list(std::string_view text);
// The PCI address behind a link such as /sys/class/infiniband/mlx5_0/device; empty: it is no PCI
// function.
std::string pci_address_behind(const std::string& link);

}  // namespace lci::net
