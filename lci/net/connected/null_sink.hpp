// A sink for code that polls and does not want to hear anything any more, as at the end. Callers:
// event_queue. Threads: any. Always true: what it is told is dropped; a message counts as taken.
#pragma once

#include "lci/net/backend.hpp"

namespace lci::net::connected {

// Its type is known nowhere else, or compilers take it for the likely one of every sink.
sink& null_sink() noexcept;

}  // namespace lci::net::connected
