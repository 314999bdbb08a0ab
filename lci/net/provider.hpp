// A provider is what the library knows about a backend before opening it: whether it is usable
// here, and if not, why. Threads: immutable. The list is made in backends/providers.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lci/net/backend.hpp"
#include "lci/net/gpu_tiers.hpp"

namespace lci::net {

// For people: one card of a network, or one port of it.
struct card_report {
  std::string name;
  std::string what;        // its state, speed and address
  bool is_chosen = false;  // it would be used
  std::string why;         // it is chosen, or not
  std::string pci = {};    // its address; empty: it has none, or it is not known
};

struct provider {
  std::string_view name;  // as in attr_backend_t and LCI_ATTR_BACKEND
  attr_backend_t backend;
  // Empty when usable, else one sentence that says why not.
  std::string (*probe)();
  std::unique_ptr<fabric> (*open)(const fabric_config& config);  // throws backend_error
  // Its cards, usable or not. Of the config only the names of what is wished are read. Null: it has
  // none.
  std::vector<card_report> (*report)(const fabric_config& config) = nullptr;
  // Where this process is, of a network that stays inside one host: processes that say the same,
  // without blanks in it, can meet over it. Up to the first dot it names the machine. Null: it
  // reaches every host. Throws argument_error.
  std::string (*place)() = nullptr;
  // The tiers of GPU endpoints above the proxy, highest first, probed on its cards. Null: it has no
  // cards that a kernel could use.
  std::vector<tier_report> (*gpu_tiers)(const fabric_config& config) = nullptr;
};

// provider::open of a backend whose fabric needs nothing but the config.
template <class Fabric>
std::unique_ptr<fabric> open_as(const fabric_config& config) {
  return std::make_unique<Fabric>(config);
}

// In order of preference. Defined by backends/providers.cpp, so that nothing below names a backend.
std::span<const provider> providers();

}  // namespace lci::net
