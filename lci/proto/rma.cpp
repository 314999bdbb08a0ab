// Put and get: operations on memory that a peer registered.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "lci/errors.hpp"
#include "lci/proto/eager.hpp"
#include "lci/proto/outgoing.hpp"

namespace lci::proto {

namespace {

// Starts a transfer that is filled in. `copied`: its bytes are in a packet of ours, so the caller's
// buffer is free already, and the post may say done as soon as the put is in order: nobody who
// hears of it may get past it (docs/decisions/0028-order-behind-puts.md).
errorcode_t launch(outgoing& out, transfer* move, bool copied) {
  errorcode_t code = errorcode_t::retry_backlog;
  const net::capabilities& can = out.via.via.fabric.caps_of(out.rank);
  move->op.in_order = copied && move->total <= std::min(out.via.via.max_piece, can.max_rma);
  // Then the post itself says done, and nobody waits for what comes after it.
  const bool is_done = move->op.in_order && can.orders_puts;
  if (is_done) move->user = {};
  if (!out.via.log.pending(out.rank)) {
    move->begun = true;
    code = out.via.advance(*move);
  }
  if (is_retry(code) && !out.may_retry) {
    // Other endpoints do not wait for what is left to progress here.
    move->begun = false;
    move->op.in_order = false;
    move->user = out.user;
    return queue_transfer(out, move);
  }
  if (code == errorcode_t::done) {
    if (!out.via.announce(*move)) [[unlikely]] {
      // No memory to tell the target: progress does.
      if (copied) move->user = {};
      out.via.via.park(*move);
      return copied ? errorcode_t::done : errorcode_t::posted;
    }
    if (copied) {
      move->user = {};
      out.via.via.finish(*move);
      return errorcode_t::done;
    }
  }
  if (code == errorcode_t::posted && is_done) return errorcode_t::done;
  return answer_of(out, move, code);
}

// Memory of a GPU at one end or both that the network leaves to us, and bytes to move. If it takes
// them, memory of a GPU here is registered, in `key` unless the caller has.
bool is_for_gpus(const outgoing& out, network_key& key) {
  const channel& via = out.via.via;
  if (out.size == 0) return false;
  if (out.off_network || !is_for_network(via, out.rank, out.kind) ||
      !is_for_network(via, out.rank, out.there))
    return true;
  if (out.kind == mem::mem_kind::host || out.local_key != 0) return false;
  key = key_for(via, out.rank, out.buffer, out.size, out.kind);
  return key.is_off();
}

// Host memory of the caller that the network is to use in place. Not done: the post would be
// refused.
errorcode_t register_host(const outgoing& out, network_key& key) {
  if (out.local_key != 0 || out.kind != mem::mem_kind::host) return errorcode_t::done;
  const errorcode_t code = out.refusal();
  if (code == errorcode_t::done)
    key = key_for(out.via.via, out.rank, out.buffer, out.size, out.kind);
  return code;
}

errorcode_t launch_direct(outgoing& out, transfer::verb what, std::string& why_not) {
  transfer* const move = make_transfer(out, what);
  if (what == transfer::verb::put) move->packet = out.packet;
  if (what == transfer::verb::put && out.rcomp != 0) {
    move->end = ending::immediate;
    move->imm = out.imm();
  }
  bool is_made = false;
  try {
    is_made = make_direct(out.via.via, *move, out.there, why_not);
  } catch (...) {
    undo_transfer(move);
    throw;
  }
  if (is_made) return launch(out, move, false);
  undo_transfer(move);
  return errorcode_t::fatal;
}

// A few bytes from GPU memory to host memory of this machine: our GPU brings them to a slot of
// ours, from where the target takes them. False: not this way.
bool put_by_landing(outgoing& out, const send_plan& plan) {
  channel& via = out.via.via;
  if (out.kind != mem::mem_kind::device || out.there.kind != mem::mem_kind::host ||
      out.size > staging_store::SMALL || via.fabric.process_of(out.rank) == 0)
    return false;
  wire::landing body;
  body.region = {out.remote.slot, out.remote.generation};
  body.offset = out.remote_offset;
  body.size = out.size;
  body.imm = out.signal_imm();
  return via.staged.land(plan, body);
}

errorcode_t put_staged(outgoing& out) {
  send_plan plan = out.plan();
  plan.is_put = true;
  if (put_by_landing(out, plan)) return errorcode_t::posted;
  network_key key;
  if (const auto code = register_host(out, key); is_retry(code)) return code;
  if (key.get() != 0) plan.local_key = key.get();
  plan.registered_here = key.get() != 0;
  wire::put_request body;
  body.region = {out.remote.slot, out.remote.generation};
  body.offset = out.remote_offset;
  body.size = out.size;
  body.imm = out.signal_imm();
  const errorcode_t code = start_staged_put(out.via, plan, body, out.may_retry);
  if (error_t(code).is_posted()) key.release();  // goes with the state
  return code;
}

errorcode_t get_staged(outgoing& out) {
  if (out.may_retry && out.via.log.pending(out.rank)) return errorcode_t::retry_backlog;
  recv_plan plan;
  plan.rank = out.rank;
  plan.user = out.user;
  plan.what = receiver::get;
  plan.kind = out.kind;
  plan.gpu = out.gpu;
  wire::get_request body;
  body.region = {out.remote.slot, out.remote.generation};
  body.offset = out.remote_offset;
  body.size = out.size;
  return out.via.via.staged.get(plan, body);
}

errorcode_t start_on_gpus(outgoing& out, transfer::verb what) {
  const attr_gpu_path_t way = out.via.via.way;
  if (way != attr_gpu_path_t::staged) {
    std::string why_not;
    const errorcode_t code = launch_direct(out, what, why_not);
    if (why_not.empty()) return code;
    if (way == attr_gpu_path_t::direct) throw backend_error("gpu_path is direct, but " + why_not);
  } else {
    out.shared().paths.through_host(out.rank, "as gpu_path says");
  }
  return what == transfer::verb::put ? put_staged(out) : get_staged(out);
}

// A few bytes of GPU memory for host memory: read by the processor, they are a put from host
// memory. Nothing: not this way. Only where a lack of packets may be told, for the bytes are gone
// on return.
[[gnu::noinline]] std::optional<errorcode_t> put_by_hand(outgoing& out) {
  if (out.there.kind != mem::mem_kind::host || out.packet != nullptr || !out.may_retry) return {};
  hand_copy bytes;
  if (!read_by_hand(out, bytes)) return {};
  outgoing from_host = out.from_host(bytes.data());
  return start_put(from_host);
}

// The rest of a put: its bytes are in `packet`, or null and `key` is of the buffer. Throws
// std::bad_alloc: the packet stays with the caller.
inline errorcode_t put_from(outgoing& out, mem::packet* packet, network_key& key) {
  transfer* move = make_transfer(out, transfer::verb::put);
  if (out.rcomp != 0) {
    move->end = ending::immediate;
    move->imm = out.imm();
  }
  if (packet != nullptr) {
    if (packet != out.packet && out.size != 0) std::memcpy(packet->payload(), out.buffer, out.size);
    move->base = packet->payload();
    move->packet = packet;
    move->op.local_key = 0;
  } else {
    move->packet = out.packet;
    take_key(*move, key);
  }
  return launch(out, move, packet != nullptr);
}

}  // namespace

errorcode_t start_put(outgoing& out) {
  if (may_go_by_hand(out)) [[unlikely]] {
    if (const auto code = put_by_hand(out)) return *code;
  }
  network_key key;
  if (is_for_gpus(out, key)) return start_on_gpus(out, transfer::verb::put);
  const bool copied = (!out.has_mr || out.size <= out.inject_limit) && !out.wants_network &&
                      out.size <= out.bcopy_limit && out.kind == mem::mem_kind::host &&
                      !out.is_apart();
  mem::packet* packet = nullptr;
  if (copied) {
    packet = out.packet != nullptr ? out.packet : out.pool.get();
    if (packet == nullptr && out.may_retry) return errorcode_t::retry_nopacket;
  }
  if (packet == nullptr) {
    if (const auto code = register_host(out, key); is_retry(code)) return code;
  }
  errorcode_t code;
  try {
    code = put_from(out, packet, key);
  } catch (...) {
    if (packet != nullptr && packet != out.packet) out.pool.put(packet);
    throw;
  }
  const bool refused = !error_t(code).is_done() && !error_t(code).is_posted();
  if (refused && packet != nullptr && packet != out.packet) out.pool.put(packet);
  return code;
}

errorcode_t start_get(outgoing& out) {
  network_key key;
  if (is_for_gpus(out, key)) return start_on_gpus(out, transfer::verb::get);
  if (const auto code = register_host(out, key); is_retry(code)) return code;
  transfer* move = make_transfer(out, transfer::verb::get);
  move->packet = nullptr;
  take_key(*move, key);
  return launch(out, move, false);
}

}  // namespace lci::proto
