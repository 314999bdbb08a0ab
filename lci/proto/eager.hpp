// Messages that are sent without asking. Threads: any, through the post that they serve.
#pragma once

#include "lci/proto/outgoing.hpp"

namespace lci::proto {

errorcode_t start_inject(outgoing& out);
errorcode_t start_bcopy(outgoing& out);
errorcode_t start_zero_copy(outgoing& out);

// A transfer record filled from `out`, counted as open. Whoever gets it ends it with
// channel::finish or takes it back with undo_transfer().
transfer* make_transfer(const outgoing& out, transfer::verb what);
// The transfer owns the registration, if there is one, from now on.
void take_key(transfer& move, network_key& key) noexcept;
// As if make_transfer() had not been called; the packet, if any, stays with the caller.
void undo_transfer(transfer* move);
// What a started transfer answered, in the words of a post: done becomes posted, with the
// completion delivered by a later progress.
errorcode_t answer_of(outgoing& out, transfer* move, errorcode_t code);
// Leaves a transfer to progress: posted_backlog.
errorcode_t queue_transfer(outgoing& out, transfer* move);

}  // namespace lci::proto
