// Put and get, for the code that carries them otherwise than by the network alone. Threads: any,
// through the post that they serve.
#pragma once

#include "lci/proto/engine/network_key.hpp"
#include "lci/proto/host/outgoing.hpp"

namespace lci::proto {

extern const protocol PUT;
extern const protocol PUT_SIGNAL;  // the target is told `imm`
extern const protocol GET;

// Starts a transfer that is filled in. `copied`: its bytes are in one of our packets, so the
// caller's buffer is free already, and the post may say done as soon as the put is in order: no
// thread that learns of it may get past it (docs/decisions/0028-order-behind-puts.md).
errorcode_t launch(outgoing& out, transfer* move, bool copied);
// Host memory of the caller that the network is to use in place. Not done: the post would be
// refused.
errorcode_t register_host(const outgoing& out, network_key& key);

}  // namespace lci::proto
