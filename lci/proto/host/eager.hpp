// Messages out of host memory that are sent without asking. Threads: any, through the post that
// they serve.
#pragma once

#include "lci/proto/host/outgoing.hpp"

namespace lci::proto {

// Behind the payload of each packet of a program's pool. B is a little less than packet_size, so
// that a message of exactly so many bytes, 8 KiB by default, would miss the packet that it nearly
// fits into.
inline constexpr std::size_t PACKET_SPARE = 2 * base::CACHE_LINE;
static_assert(PACKET_SPARE >= sizeof(mem::packet) + sizeof(wire::extended_head));

extern const post_protocol INJECT;     // copied by the call that hands it to the network
extern const post_protocol BCOPY;      // copied into a packet
extern const post_protocol ZERO_COPY;  // from where it is

}  // namespace lci::proto
