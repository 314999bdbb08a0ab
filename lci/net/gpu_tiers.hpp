// The four tiers of communication that a kernel starts: who executes its work requests, why a tier
// cannot be used here, and which one is used. Callers: networks, whose cards are probed for the
// upper three; code that makes endpoints for kernels; lci_info. Threads: any; nothing here has
// state. Always true: a tier that was asked for is used or is an error, never replaced by another
// one; a hint decides nothing.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lci/types.hpp"

namespace lci::net {

struct fabric_config;
struct provider;

// automatic: the highest that is usable. gpu_direct, T0: the GPU writes the card's queue and its
// register. cpu_rings, T1: the GPU writes the card's queue, a processor its register. cpu_forwards,
// T2: a processor hands the card what the GPU has written. proxy, T3: a processor does it, over any
// network.
using gpu_tier = attr_gpu_tier_t;

// Highest first.
inline constexpr std::array<gpu_tier, 4> GPU_TIERS = {gpu_tier::gpu_direct, gpu_tier::cpu_rings,
                                                      gpu_tier::cpu_forwards, gpu_tier::proxy};

// Why tier `proxy` is not usable, if the program has not switched it on.
inline constexpr const char* PROXY_IS_OFF =
    "gpu_proxy is off (LCI_ATTR_GPU_PROXY: progress, thread)";

// "T0 GPU direct"; for messages and lci_info.
std::string_view name_of(gpu_tier tier) noexcept;

// One thing that was tried, or looked at.
struct tier_probe {
  std::string name;
  std::string why_not;   // empty: it is so
  bool is_hint = false;  // of interest when something else has failed
};

struct tier_report {
  gpu_tier tier = gpu_tier::proxy;
  std::string why_not;  // empty: usable
  std::vector<tier_probe> probes = {};
};

// The four of them, highest first. The upper ones are those of the first network that has cards for
// them. has_proxy: gpu_proxy is not off.
std::vector<tier_report> list_gpu_tiers(std::span<const provider> networks,
                                        const fabric_config& config, bool has_proxy);

// `wanted`, or the highest that is usable. Throws backend_error: the tier that was asked for is not
// usable, or none is; with the reasons.
gpu_tier choose_gpu_tier(gpu_tier wanted, std::span<const tier_report> all);

}  // namespace lci::net
