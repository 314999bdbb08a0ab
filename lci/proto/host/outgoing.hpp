// One operation that leaves, with everything about it resolved: the api fills it in, a protocol
// starts it. Threads: lives on the stack of the posting thread.
#pragma once

#include "lci/proto/engine/op.hpp"
#include "lci/proto/engine/post_queue.hpp"
#include "lci/proto/host/host_context.hpp"
#include "lci/proto/host/plans.hpp"

namespace lci::proto {

struct outgoing;

// A protocol that posts choose from.
struct post_protocol : protocol {
  bool (*accepts)(const outgoing& out) noexcept;
  errorcode_t (*start)(outgoing& out);
};

struct outgoing {
  post_queue& queue;
  host_context& host;
  mem::packet_pool& pool;
  std::size_t inject_limit = 0;  // attribute max_inject_size
  std::size_t bcopy_limit = 0;  // "B": progress_engine::max_copy, and what a packet of `pool` takes
  int rank = -1;
  void* buffer = nullptr;
  std::size_t size = 0;
  tag_t tag = 0;
  rcomp_t rcomp = 0;  // where a message goes, or what a put signals; 0: none
  user_side user{};   // told when the operation was posted
  mem::mem_kind kind = mem::mem_kind::host;
  int gpu = -1;              // of device memory
  net::remote_view there{};  // put, get: what `remote` names
  bool has_mr = false;  // the caller registered the buffer or named its kind: no copy is wanted
  std::uint64_t local_key = 0;
  bool off_network = false;       // GPU memory whose registration the network has refused
  mem::packet* packet = nullptr;  // the buffer is the payload of this user packet, which the
                                  // operation uses up; it may be borrowed from a peer
  bool wants_network = false;     // comp_semantic network
  bool may_retry = true;
  bool extended = false;     // rcomp or tag need an extended head
  net::remote_key remote{};  // put, get
  std::uint64_t remote_offset = 0;

  core& shared() const noexcept { return queue.engine.shared; }
  std::uint32_t imm() const noexcept {
    return extended ? wire::kind_imm(wire::kind::extended) : shared().imm.encode(rcomp, tag);
  }
  // The packet that can be sent as it is: ours, and nothing has to come before its bytes. Others
  // are copied and given back.
  mem::packet* ready_packet() const noexcept {
    return packet != nullptr && !extended && shared().arena.contains(packet) && !is_apart()
               ? packet
               : nullptr;
  }
  // The user packet's payload is not behind its header, so only `buffer` names it.
  bool is_apart() const noexcept {
    return packet != nullptr &&
           packet->state.load(std::memory_order_relaxed) == mem::packet_state::apart;
  }
  // The immediate word of a put's notification, 0: none.
  std::uint32_t signal_imm() const noexcept { return rcomp != 0 ? imm() : 0; }
  // What a sender brings that asks before it sends.
  send_plan plan() const noexcept {
    send_plan made;
    made.rank = rank;
    made.user = user;
    made.buffer = buffer;
    made.kind = kind;
    made.gpu = gpu;
    made.local_key = local_key;
    made.off_network = off_network;
    made.packet = packet;
    // Matching engines have the same numbers on all ranks.
    made.has_receive = shared().rcomps.find(rcomp).match != nullptr;
    return made;
  }
  // The same operation with its bytes in host memory that ends with the post.
  outgoing from_host(std::byte* bytes) const noexcept {
    outgoing made = *this;
    made.buffer = bytes;
    made.kind = mem::mem_kind::host;
    made.gpu = -1;
    made.has_mr = false;
    made.local_key = 0;
    made.off_network = false;
    return made;
  }
  // Why the post would be refused anyway, or done: nothing need be registered for what is refused.
  // Only worth its cost where there is something to register.
  errorcode_t refusal() const noexcept {
    if (!may_retry) return errorcode_t::done;
    if (queue.log.pending(rank)) return errorcode_t::retry_backlog;
    const errorcode_t code = queue.end().would_post(rank);
    return is_retry(code) ? code : errorcode_t::done;
  }
  std::size_t head_size() const noexcept { return extended ? sizeof(wire::extended_head) : 0; }
};

}  // namespace lci::proto
