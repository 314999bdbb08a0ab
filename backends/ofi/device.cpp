#include "backends/ofi/device.hpp"

#include "backends/ofi/endpoint.hpp"

namespace lci::ofi {

std::unique_ptr<net::endpoint> device::make_endpoint() {
  return std::make_unique<endpoint>(fabric_, port_);
}

}  // namespace lci::ofi
