// Messages that are sent without asking. Threads: any, through the post that they serve.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "lci/proto/outgoing.hpp"

namespace lci::proto {

errorcode_t start_inject(outgoing& out);
errorcode_t start_bcopy(outgoing& out);
errorcode_t start_zero_copy(outgoing& out);

// A few bytes of GPU memory that the processor reads by itself (mem::accelerator::read_by_hand) go
// as if they had been in host memory. `direct` means copy engines, so nothing goes so there.
using hand_copy = std::array<std::byte, 1024>;
inline bool may_go_by_hand(const outgoing& out) noexcept {
  return out.kind == mem::mem_kind::device && out.shared().gpus.may_read_by_hand(out.size) &&
         out.size <= std::tuple_size_v<hand_copy> && out.size <= out.bcopy_limit &&
         !out.wants_network && out.via.via.way != attr_gpu_path_t::direct;
}
// After may_go_by_hand(). False: this memory cannot be read so.
bool read_by_hand(const outgoing& out, hand_copy& bytes) noexcept;
// A message. Nothing: the same.
std::optional<errorcode_t> start_by_hand(outgoing& out);

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
// Leaves a transfer to progress: posted_backlog. Throws std::bad_alloc: it is taken back.
errorcode_t queue_transfer(outgoing& out, transfer* move);

}  // namespace lci::proto
