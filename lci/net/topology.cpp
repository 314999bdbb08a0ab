#include "lci/net/topology.hpp"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#if LCI_HAVE_HWLOC
#include <hwloc.h>
#endif

namespace lci::net {
namespace {

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

void sort_out(std::vector<int>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

// "0000:3b:00.0"
bool is_address(std::string_view text) {
  const std::size_t colon = text.find(':');
  return colon != std::string_view::npos && colon >= 4 && text.size() == colon + 8 &&
         text[colon + 3] == ':' && text[colon + 6] == '.';
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> out;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int low = 0, high = 0;
    const auto first = std::from_chars(at, end, low);
    if (first.ec != std::errc() || low < 0) break;
    at = first.ptr;
    high = low;
    if (at != end && *at == '-') {
      const auto last = std::from_chars(at + 1, end, high);
      if (last.ec != std::errc() || high - low > 1 << 16) break;
      at = last.ptr;
    }
    for (int one = low; one <= high; ++one) out.push_back(one);
    if (at == end || *at != ',') break;
    ++at;
  }
  sort_out(out);
  return out;
}

std::string pci_address_behind(const std::string& link) {
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(link, failed);
  const std::string name = real.filename();
  return !failed && is_address(name) ? name : std::string();
}

place topology::of_pci(std::string address) const {
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  place out;
  if (!ask_hwloc(address, out)) out = by_kernel(address);
  out.packages = packages_of(out.cpus);
  return out;
}

place topology::of_cpus(std::vector<int> cpus) const {
  place out;
  sort_out(cpus);
  out.packages = packages_of(cpus);
  out.cpus = std::move(cpus);
  return out;
}

place topology::of_process() const {
  // Machines may have more cores than fit the usual set.
  for (int most = CPU_SETSIZE; most <= 1 << 16; most *= 2) {
    cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(most));
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(most));
    std::vector<int> cpus;
    const bool is_told = sched_getaffinity(0, bytes, set) == 0;
    for (int i = 0; is_told && i < most; ++i)
      if (CPU_ISSET_S(static_cast<std::size_t>(i), bytes, set)) cpus.push_back(i);
    CPU_FREE(set);
    if (is_told) return of_cpus(std::move(cpus));
  }
  return {};
}

// The folder of a function lies in that of the bridge above it:
// /sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0
place topology::by_kernel(const std::string& address) const {
  place out;
  std::error_code failed;
  const std::filesystem::path real =
      std::filesystem::canonical(sysfs_ + "/bus/pci/devices/" + address, failed);
  if (failed) return out;
  for (const std::filesystem::path& part : real.parent_path()) {
    const std::string name = part;
    if (name.starts_with("pci") || is_address(name)) out.bridges.push_back(name);
  }
  out.cpus = parse_cpu_list(first_line(real / "local_cpulist"));
  return out;
}

std::vector<int> topology::packages_of(const std::vector<int>& cpus) const {
  std::vector<int> out;
  for (const int cpu : cpus) {
    const std::string text = first_line(sysfs_ + "/devices/system/cpu/cpu" + std::to_string(cpu) +
                                        "/topology/physical_package_id");
    int package = -1;
    std::from_chars(text.data(), text.data() + text.size(), package);
    if (package >= 0) out.push_back(package);
  }
  sort_out(out);
  return out;
}

#if LCI_HAVE_HWLOC

topology::topology(std::string sysfs, const char* xml) : sysfs_(std::move(sysfs)) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return;
  // Of PCI the kernel's files say the same as the library that hwloc asks otherwise, which reads
  // the names of all devices and leaks them; nor do GPUs have to be woken up.
  for (const char* const part : {"pci", "opencl", "gl", "cuda", "nvml", "rsmi", "levelzero"})
    hwloc_topology_set_components(made, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, part);
  if ((xml == nullptr || hwloc_topology_set_xml(made, xml) == 0) &&
      hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0 &&
      hwloc_topology_load(made) == 0)
    hwloc_ = made;
  else
    hwloc_topology_destroy(made);
}

topology::~topology() {
  if (hwloc_ != nullptr) hwloc_topology_destroy(static_cast<hwloc_topology_t>(hwloc_));
}

bool topology::ask_hwloc(const std::string& address, place& out) const {
  if (hwloc_ == nullptr) return false;
  hwloc_obj_t at =
      hwloc_get_pcidev_by_busidstring(static_cast<hwloc_topology_t>(hwloc_), address.c_str());
  if (at == nullptr) return false;
  for (at = at->parent; at != nullptr && at->type == HWLOC_OBJ_BRIDGE; at = at->parent)
    out.bridges.insert(out.bridges.begin(), std::to_string(at->logical_index));
  // What is near everything is near nothing.
  if (at != nullptr && at->parent != nullptr && at->cpuset != nullptr)
    for (int cpu = hwloc_bitmap_first(at->cpuset); cpu >= 0;
         cpu = hwloc_bitmap_next(at->cpuset, cpu))
      out.cpus.push_back(cpu);
  return true;
}

#else

topology::topology(std::string sysfs, const char*) : sysfs_(std::move(sysfs)) {}
topology::~topology() = default;
bool topology::ask_hwloc(const std::string&, place&) const { return false; }

#endif

}  // namespace lci::net
