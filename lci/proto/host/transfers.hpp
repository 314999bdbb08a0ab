// How posts make, start and take back transfers. Threads: any, through the post that they serve.
#pragma once

#include "lci/proto/engine/network_key.hpp"
#include "lci/proto/host/outgoing.hpp"

namespace lci::proto {

// A transfer record filled from `out`, counted as open. The code that gets it ends it with
// post_queue::conclude or progress_engine::finish, or takes it back with undo_transfer().
transfer* make_transfer(const outgoing& out, transfer::verb what, const protocol& of);
// The transfer owns the registration, if there is one, from now on.
void take_key(transfer& move, network_key& key) noexcept;
// As if make_transfer() had not been called; the packet, if any, stays with the caller.
void undo_transfer(transfer* move);
// What a started transfer answered, in the words of a post: done becomes posted, with the
// completion delivered by a later progress.
errorcode_t answer_of(outgoing& out, transfer* move, errorcode_t code);
// Leaves a transfer to progress: posted_backlog. Throws std::bad_alloc: it is taken back.
errorcode_t queue_transfer(outgoing& out, transfer* move);

}  // namespace lci::proto
