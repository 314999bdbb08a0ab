// The order in which providers are tried. Threads: functions only.
#pragma once

#include <span>
#include <string_view>

#include "lci/net/provider.hpp"

namespace lci::net {

// Those that stay inside a host first, then as `preference` lists them (names, separated by comma,
// blank or semicolon), then the others; otherwise as they were.
void put_in_order(std::span<provider> all, std::string_view preference);

}  // namespace lci::net
