#include "experimental/ibv/gpu_tiers/hints.hpp"

#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace lci::ibv {

std::string why_no_peer_mapping(const std::string& procfs) {
  const std::string path = procfs + "/driver/nvidia/params";
  std::ifstream file(path);
  if (!file) return "there is no " + path;
  for (std::string line; std::getline(file, line);) {
    if (!std::string_view(line).starts_with("RegistryDwords:")) continue;
    if (line.find("PeerMappingOverride=1") != std::string::npos) return "";
  }
  return "PeerMappingOverride=1 is not in RegistryDwords of " + path;
}

std::string why_no_peermem(const std::string& sysfs) {
  std::error_code ignored;
  for (const char* name : {"kernel/mm/memory_peers/nv_mem", "kernel/mm/memory_peers/nv_mem_nc",
                           "kernel/mm/memory_peers/nvidia-peermem", "module/nvidia_peermem"})
    if (std::filesystem::exists(sysfs + "/" + name, ignored)) return "";
  return "the module nvidia_peermem is not loaded";
}

}  // namespace lci::ibv
