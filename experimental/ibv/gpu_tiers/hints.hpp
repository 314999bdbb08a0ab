// What files of the system say about why a GPU's driver may refuse. Callers: the probe. Threads:
// any. Always true: a hint decides nothing: only a real attempt does.
#pragma once

#include <string>

namespace lci::ibv {

// Empty, or why kernels may not be allowed to reach a card's registers: PeerMappingOverride is not
// among the options that NVIDIA's driver was loaded with. procfs: where the kernel's files are.
std::string why_no_peer_mapping(const std::string& procfs = "/proc");
// Empty, or that no module is loaded which lets a card take the address of GPU memory.
std::string why_no_peermem(const std::string& sysfs = "/sys");

}  // namespace lci::ibv
