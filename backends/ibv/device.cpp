#include "backends/ibv/device.hpp"

#include "backends/ibv/endpoint.hpp"

namespace lci::ibv {

std::unique_ptr<net::endpoint> device::make_endpoint() {
  return std::make_unique<endpoint>(fabric_, port_);
}

}  // namespace lci::ibv
