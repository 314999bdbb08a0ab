// What the rest of lci knows of this backend. Callers: providers.cpp. Threads: any.
#include "lci/net/provider.hpp"

#include "backends/ibv/fabric.hpp"
#include "backends/ibv/gpu_tiers.hpp"
#include "backends/ibv/select.hpp"

namespace lci::ibv {

const net::provider PROVIDER{"ibv",   attr_backend_t::ibv, &probe, &net::open_as<fabric>, &report,
                             nullptr, &gpu_tiers::probe};

}  // namespace lci::ibv
