// What the rest of lci knows of this backend. Callers: providers.cpp. Threads: any.
#include "lci/net/provider.hpp"

#include "backends/ibv/fabric.hpp"
#include "backends/ibv/select.hpp"

namespace lci::ibv {
namespace {

std::unique_ptr<net::fabric> open(const net::fabric_config& config) {
  return std::make_unique<fabric>(config);
}

}  // namespace

const net::provider PROVIDER{"ibv", attr_backend_t::ibv, &probe, &open, &report};

}  // namespace lci::ibv
