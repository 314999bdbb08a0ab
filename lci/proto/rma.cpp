// Put and get: operations on memory that a peer registered.
#include <cstring>

#include "lci/proto/eager.hpp"
#include "lci/proto/outgoing.hpp"

namespace lci::proto {

namespace {

bool is_retry(errorcode_t code) noexcept { return error_t(code).is_retry(); }

// Starts a transfer that is filled in. `copied`: its bytes are in a packet of ours, so the caller's
// buffer is free already.
errorcode_t launch(outgoing& out, transfer* move, bool copied) {
  errorcode_t code = errorcode_t::retry_backlog;
  if (!out.via.log.pending(out.rank)) {
    move->begun = true;
    code = out.via.advance(*move);
  }
  if (is_retry(code) && !out.may_retry) {
    move->begun = false;
    queue_transfer(out, move);
    return copied ? errorcode_t::done_backlog : errorcode_t::posted_backlog;
  }
  if (code == errorcode_t::done) {
    out.via.announce(*move);
    if (copied) {
      out.via.via.finish(*move);
      return errorcode_t::done;
    }
  }
  if (code == errorcode_t::posted && copied) return errorcode_t::done;
  return answer_of(out, move, code);
}

}  // namespace

errorcode_t start_put(outgoing& out) {
  const bool copied = (!out.has_mr || out.size <= out.inject_limit) && !out.wants_network &&
                      out.size <= out.bcopy_limit && out.kind == mem::mem_kind::host;
  mem::packet* packet = nullptr;
  if (copied) {
    packet = out.packet != nullptr ? out.packet : out.pool.get();
    if (packet == nullptr && out.may_retry) return errorcode_t::retry_nopacket;
  }
  transfer* move = make_transfer(out, transfer::verb::put);
  if (out.rcomp != 0) {
    move->end = ending::immediate;
    move->imm = out.imm();
  }
  if (packet != nullptr) {
    if (packet != out.packet && out.size != 0) std::memcpy(packet->payload(), out.buffer, out.size);
    move->base = packet->payload();
    move->packet = packet;
    move->user.comp = nullptr;  // the post itself says done
    move->op.local_key = 0;
  } else {
    move->packet = out.packet;
    if (out.local_key == 0) {
      move->op.local_key = out.via.via.fabric.register_region(out.buffer, out.size, out.kind);
      move->registered_here = move->op.local_key != 0;
    }
  }
  const errorcode_t code = launch(out, move, packet != nullptr);
  const bool refused = !error_t(code).is_done() && !error_t(code).is_posted();
  if (refused && packet != nullptr && packet != out.packet) out.pool.put(packet);
  return code;
}

errorcode_t start_get(outgoing& out) {
  transfer* move = make_transfer(out, transfer::verb::get);
  move->packet = nullptr;
  if (out.local_key == 0) {
    move->op.local_key = out.via.via.fabric.register_region(out.buffer, out.size, out.kind);
    move->registered_here = move->op.local_key != 0;
  }
  return launch(out, move, false);
}

}  // namespace lci::proto
