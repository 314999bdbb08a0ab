// A peer asks before it sends a message: it goes to its matching engine, or, for a completion
// object, gets a buffer, in its turn where the network is faster so (am_window). Threads: on_rts()
// runs in the polling thread; grant_arrivals() in whichever ends a message, or makes progress.
#pragma once

#include "lci/net/backend.hpp"
#include "lci/proto/host/host_context.hpp"

namespace lci::proto {

// deferred: the peer is to ask again. Throws std::bad_alloc.
net::verdict on_rts(host_context& host, int rank, const wire::rts& request);
// Answers requests of that rank that wait for their turn, as far as its window allows.
void grant_arrivals(host_context& host, int rank) noexcept;

}  // namespace lci::proto
