// What the rest of lci knows of this backend. Callers: providers.cpp. Threads: any.
#include "lci/net/provider.hpp"

#include "backends/ofi/fabric.hpp"
#include "backends/ofi/select.hpp"

namespace lci::ofi {
namespace {

std::unique_ptr<net::fabric> open(const net::fabric_config& config) {
  return std::make_unique<fabric>(config);
}

}  // namespace

const net::provider PROVIDER{"ofi", attr_backend_t::ofi, &probe, &open, &report};

}  // namespace lci::ofi
