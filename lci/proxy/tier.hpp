// Which tier executes the work requests of a new endpoint. Callers: alloc_gpu_endpoint(). Threads:
// any, no state. Always true: a tier that is asked for by name is that one or an error; the attempt
// to make its queues is what finds out.
#pragma once

#include "lci/net/kernel_card.hpp"
#include "lci/types.hpp"

namespace lci::proxy {

struct tier_question {
  attr_gpu_tier_t wanted = attr_gpu_tier_t::automatic;
  attr_gpu_proxy_t proxy = attr_gpu_proxy_t::off;
  bool is_for_gpu = true;            // else for threads of the process
  int ranks = 1;                     // of the job
  net::kernel_card* card = nullptr;  // of the device's network; null: it has none for kernels
};

// The tier to use: the one that is wanted, or the highest that is usable. Throws backend_error with
// the reason of each tier that is not, and the option that would help.
attr_gpu_tier_t choose_tier(const tier_question& asked);

}  // namespace lci::proxy
