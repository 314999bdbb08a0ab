// Which protocol carries a message, and how each starts. None of them asks which backend it runs
// on. Threads: any, through the post that they serve; the records are immutable.
#pragma once

#include <span>

#include "lci/proto/host/outgoing.hpp"

namespace lci::proto {

// Messages out of host memory: the first whose accepts() says yes, and the last accepts everything.
std::span<const post_protocol* const> message_protocols() noexcept;
const post_protocol& select_message(const outgoing& out) noexcept;

// Answers of all: done, done_backlog, posted, posted_backlog, retry_* (only if may_retry), fatal
// when the peer has ended.
errorcode_t start_message(outgoing& out);  // send or active message
errorcode_t start_put(outgoing& out);
errorcode_t start_get(outgoing& out);
// A message of any size and from any memory, whose sender asks first.
errorcode_t start_rendezvous(outgoing& out);

}  // namespace lci::proto
