// Which tier executes the work requests of a new endpoint. Callers: alloc_gpu_endpoint(). Threads:
// any, no state. Always true: a tier that is asked for by name is that one or an error; the attempt
// to make its queues, and to have the other ranks make theirs, is what finds out.
#pragma once

#include <vector>

#include "lci/errors.hpp"
#include "lci/net/kernel_card.hpp"
#include "lci/types.hpp"

namespace lci::proxy {

struct tier_question {
  attr_gpu_tier_t wanted = attr_gpu_tier_t::automatic;
  attr_gpu_proxy_t proxy = attr_gpu_proxy_t::off;
  bool is_for_gpu = true;            // else for threads of the process
  net::kernel_card* card = nullptr;  // of the device's network; null: it has none for kernels
};

// All tiers, highest first, each with the reason why it is not to be used.
std::vector<net::tier_report> list_tiers(const tier_question& asked);
// That tier has shown to be of no use, for that reason; logged.
void set_aside(std::vector<net::tier_report>& all, attr_gpu_tier_t tier, const char* why_not);

// What make(tier) makes of the tier that is wanted, or of the highest that is usable: one that
// throws backend_error is set aside for the next, unless it was asked for by name. Throws
// backend_error with the reason of each tier that is not usable, and the option that would help.
template <class Make>
auto make_of_tier(const tier_question& asked, Make&& make) {
  std::vector<net::tier_report> all = list_tiers(asked);
  for (;;) {
    const attr_gpu_tier_t tier = net::choose_gpu_tier(asked.wanted, all);
    try {
      return make(tier);
    } catch (const backend_error& error) {
      if (asked.wanted != attr_gpu_tier_t::automatic || tier == attr_gpu_tier_t::proxy) throw;
      set_aside(all, tier, error.what());
    }
  }
}

}  // namespace lci::proxy
