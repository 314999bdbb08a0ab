#include "backends/ibv/device.hpp"

#include "backends/ibv/endpoint.hpp"

namespace lci::ibv {

std::unique_ptr<net::endpoint> device::make_endpoint() {
  return std::make_unique<endpoint>(fabric_, port_, claim::user);
}

std::unique_ptr<net::endpoint> device::make_control_endpoint() {
  return std::make_unique<endpoint>(fabric_, port_, claim::library);
}

}  // namespace lci::ibv
