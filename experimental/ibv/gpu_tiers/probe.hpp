// What of tiers T0 to T2 can be used here, found out by trying. Callers: gpu_tiers::probe(); tests,
// which give it another library and other files. Threads: any. Always true: rows are tried in the
// order of PROBES, and nothing that was opened for one stays.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experimental/ibv/gpu_tiers/mlx5_library.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/gpu_tiers.hpp"

namespace lci::ibv {

enum class tier_row : std::uint8_t {
  device,
  port,
  devx,
  raw_requests,
  direct_view,
  queue_memory,
  register_mapping,
  driver_option,
  peermem,
  dma_buf_gpu,
  dma_buf_card,
  data_direct,
  end_to_end,
  count
};
inline constexpr std::size_t TIER_ROWS = static_cast<std::size_t>(tier_row::count);

// Sets of tiers.
inline constexpr unsigned IN_T0 = 1, IN_T1 = 2, IN_T2 = 4;

// The rows: what they are called, whose report has them, and which tiers are not usable without.
struct tier_row_facts {
  std::string_view name;
  unsigned shown = 0;
  unsigned decides = 0;  // 0: a hint, or a way for payload in GPU memory
};
inline constexpr std::array<tier_row_facts, TIER_ROWS> PROBES = {{
    {"mlx5 device", IN_T0 | IN_T1 | IN_T2, IN_T0 | IN_T1 | IN_T2},
    {"port", IN_T0 | IN_T1 | IN_T2, IN_T0 | IN_T1 | IN_T2},
    {"DevX", IN_T0 | IN_T1, 0},
    {"raw work requests", IN_T2, IN_T2},
    {"direct view of a queue", IN_T0 | IN_T1, IN_T0 | IN_T1},
    {"queue memory mapped for kernels", IN_T0 | IN_T1 | IN_T2, IN_T0 | IN_T1 | IN_T2},
    {"register mapped for kernels", IN_T0, IN_T0},
    {"driver option PeerMappingOverride", IN_T0, 0},
    {"nvidia_peermem", IN_T0 | IN_T1 | IN_T2, 0},
    {"dma-buf of the GPU", IN_T0 | IN_T1 | IN_T2, 0},
    {"dma-buf of the card", IN_T0 | IN_T1 | IN_T2, 0},
    {"Data Direct", IN_T0 | IN_T1 | IN_T2, 0},
    {"end to end, by a processor", IN_T0 | IN_T1, IN_T0 | IN_T1},
}};

struct probe_setup {
  const mlx5& lib;
  std::string procfs = "/proc", sysfs = "/sys";
  std::uint64_t limit_ns = 1'000'000'000;  // of the write from end to end
};

std::vector<net::tier_report> probe_tiers(const net::fabric_config& config,
                                          const probe_setup& setup);

}  // namespace lci::ibv
