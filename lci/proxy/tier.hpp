// Which tier executes the work requests of a new endpoint. Callers: alloc_gpu_endpoint(). Threads:
// any, no state.
#pragma once

#include "lci/types.hpp"

namespace lci::proxy {

// The tier to use: the highest that is usable, or the one that is wanted. Throws backend_error with
// the reason of each tier that is not, and the option that would help.
attr_gpu_tier_t choose_tier(attr_gpu_tier_t wanted, attr_gpu_proxy_t proxy);

}  // namespace lci::proxy
