// What libfabric says about the card behind a domain, in words for people and for the topology: its
// address on the network, and its place in the machine. Callers: select. Threads: any. Always true:
// what is not told is empty; a text holds nothing but printable characters.
#pragma once

#include <string>

#include "backends/ofi/library.hpp"

namespace lci::ofi {

// "10.0.0.1", "fe80::1", or what the provider has instead: its own text, else its bytes in hex.
std::string address_text(const fi_info& info);
// "0000:3b:00.0"
std::string pci_address(const fi_info& info);

}  // namespace lci::ofi
