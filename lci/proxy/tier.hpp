// Which tier executes the work requests of a new endpoint. Callers: alloc_gpu_endpoint(). Threads:
// any, no state. Always true: a tier that is asked for by name is that one or an error; the attempt
// to make its queues, and to have the other ranks make theirs, is what finds out.
#pragma once

#include <vector>

#include "lci/errors.hpp"
#include "lci/net/kernel_card.hpp"
#include "lci/types.hpp"

namespace lci::proxy {

// What the card of this rank or of another one says against a tier; and that such a rank has ended.
// Errors that progress has kept for others are none of these.
class tier_error : public backend_error {
 public:
  using backend_error::backend_error;
};
class tier_peer_error : public peer_failure_error {
 public:
  explicit tier_peer_error(const peer_failure_error& of) : peer_failure_error(of) {}
};

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
// throws one of the two errors above is set aside for the next, unless it was asked for by name.
// Throws backend_error with the reason of each tier that is not usable, and the option that would
// help.
template <class Make>
auto make_of_tier(const tier_question& asked, Make&& make) {
  std::vector<net::tier_report> all = list_tiers(asked);
  for (;;) {
    const attr_gpu_tier_t tier = net::choose_gpu_tier(asked.wanted, all);
    const bool is_last =
        asked.wanted != attr_gpu_tier_t::automatic || tier == attr_gpu_tier_t::proxy;
    try {
      return make(tier);
    } catch (const tier_error& error) {
      if (is_last) throw;
      set_aside(all, tier, error.what());
    } catch (const tier_peer_error& error) {
      if (is_last) throw;
      set_aside(all, tier, error.what());
    }
  }
}

}  // namespace lci::proxy
