// The seam to work requests that kernels hand to an mlx5 card, tiers T0 to T2: what can be used
// here, and the queue pairs for it. What is behind it is in experimental/ibv/gpu_tiers. Callers:
// provider; lci_info; code that makes endpoints for kernels. Threads: any. Always true: nothing is
// opened or mapped before it is asked for.
#pragma once

#include <memory>
#include <vector>

#include "backends/ibv/select.hpp"
#include "backends/ibv/tier_queue.hpp"
#include "lci/net/gpu_tiers.hpp"

namespace lci::ibv {

struct gpu_tiers {
  // T0 to T2 on the card that a network would use, each with its probes. Opens the card.
  static std::vector<net::tier_report> probe(const net::fabric_config& config);
  // On a card that is open; all of the parameters outlive it. Throws backend_error.
  static std::unique_ptr<tier_queue> open(const chosen_port& card, ibv_pd* pd,
                                          const tier_options& options);
  // The other end of a peer's queue pair: takes what that asks for, and nothing is posted to it.
  // Throws backend_error.
  static std::unique_ptr<tier_queue> open_target(const chosen_port& card, ibv_pd* pd);
};

}  // namespace lci::ibv
