// Where receives meet large messages. Threads: the thread that brings the two together.
#pragma once

#include "lci/proto/host/match_records.hpp"

namespace lci::proto {

// A receive has met the request of a rendezvous: answers it, at once or, where memory is short, in
// a later round of progress. Takes over both.
void give_answer(receive& to, message& request) noexcept;

}  // namespace lci::proto
