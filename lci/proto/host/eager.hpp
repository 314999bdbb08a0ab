// Messages out of host memory that are sent without asking. Threads: any, through the post that
// they serve.
#pragma once

#include "lci/proto/host/outgoing.hpp"

namespace lci::proto {

extern const post_protocol INJECT;     // copied by the call that hands it to the network
extern const post_protocol BCOPY;      // copied into a packet
extern const post_protocol ZERO_COPY;  // from where it is

}  // namespace lci::proto
