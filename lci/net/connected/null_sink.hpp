// A net::sink that drops what it is given. For code that has to go on polling a network although
// nothing waits for what arrives any more: a device that disconnects, in the first place. Callers:
// event_queue. Threads: any. Always true: a message counts as taken, so that its buffer goes back
// to the network; completions, errors and ends of peers leave no trace.
#pragma once

#include "lci/net/backend.hpp"

namespace lci::net::connected {

// Its type is known nowhere else, or compilers take it for the likely one of every sink.
sink& null_sink() noexcept;

}  // namespace lci::net::connected
