// The TCP connections of this process, those that a provider keeps to itself among them.
//
// tcp;ofi_rxm of libfabric 1.17 falls over a null pointer when an endpoint is closed amid a write
// with immediate that comes in: it reports the rest as cancelled, without a context, and looks into
// that. It takes the end of a connection well, so connections are hung up first. Threads: any; what
// others open or close meanwhile may be seen or not. Always true: nothing is closed here.
#pragma once

#include <functional>

#include "backends/ofi/wire.hpp"

namespace lci::ofi {

// Both ends of a connection, as endpoints are named: a sockaddr_in or sockaddr_in6.
using ends_of_connection =
    std::function<bool(const endpoint_name& here, const endpoint_name& there)>;

// Ends each connection for which `is_meant` holds, both ways: this process reads its end, and the
// peer what was written before and then the end. Returns how many; 0 where /proc is not mounted.
std::size_t hang_up(const ends_of_connection& is_meant) noexcept;

}  // namespace lci::ofi
