// Put and get: operations on memory that a peer registered.
#include <algorithm>
#include <cstring>
#include <optional>

#include "lci/proto/host/rma.hpp"
#include "lci/proto/host/select.hpp"
#include "lci/proto/host/transfers.hpp"

namespace lci::proto {

errorcode_t launch(outgoing& out, transfer* move, bool copied) {
  errorcode_t code = errorcode_t::retry_backlog;
  const net::capabilities& can = out.queue.engine.fabric.caps_of(out.rank);
  move->op.in_order = copied && move->total <= out.queue.engine.piece_of(can);
  // Then the post itself says done, and nothing waits for what comes after it.
  const bool is_done = move->op.in_order && can.orders_puts;
  if (is_done) move->user = {};
  if (!out.queue.log.pending(out.rank)) {
    move->begun = true;
    code = out.queue.advance(*move);
  }
  if (is_retry(code) && !out.may_retry) {
    // Other endpoints do not wait for what is left to progress here.
    move->begun = false;
    move->op.in_order = false;
    move->user = out.user;
    return queue_transfer(out, move);
  }
  if (code == errorcode_t::done) {
    const protocol& of = *move->of;
    if (of.on_complete != nullptr && !of.on_complete(*move)) [[unlikely]] {
      // No memory to tell the target: progress does.
      if (copied) move->user = {};
      out.queue.engine.park(*move);
      return copied ? errorcode_t::done : errorcode_t::posted;
    }
    if (copied) {
      move->user = {};
      out.queue.engine.finish(*move);
      return errorcode_t::done;
    }
  }
  if (code == errorcode_t::posted && is_done) return errorcode_t::done;
  return answer_of(out, move, code);
}

// Host memory of the caller that the network is to use in place. Not done: the post would be
// refused.
errorcode_t register_host(const outgoing& out, network_key& key) {
  if (out.local_key != 0 || out.kind != mem::mem_kind::host) return errorcode_t::done;
  const errorcode_t code = out.refusal();
  if (code == errorcode_t::done) key = key_for(out.host, out.rank, out.buffer, out.size, out.kind);
  return code;
}

namespace {

// Host memory at both ends, as far as is known here.
inline bool is_plain(const outgoing& out) noexcept {
  return out.kind == mem::mem_kind::host && out.there.kind == mem::mem_kind::host &&
         !out.off_network && !out.there.off_network;
}

// Where the network could not carry the news with the data, it follows as a message. As
// tells_with_data(), of a put that always has news.
bool tell_target(transfer& move) noexcept {
  const int rank = move.op.rank;
  return move.queue->engine.fabric.caps_of(rank).write_with_immediate ||
         move.queue->accept_control(rank, wire::kind::signal, wire::signal_body{move.imm});
}

// The rest of a put: its bytes are in `packet`, or null and `key` is of the buffer. Throws
// std::bad_alloc: the packet stays with the caller.
inline errorcode_t put_from(outgoing& out, mem::packet* packet, network_key& key) {
  transfer* move = make_transfer(out, transfer::verb::put, out.rcomp != 0 ? PUT_SIGNAL : PUT);
  if (out.rcomp != 0) move->imm = out.imm();
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

constexpr protocol PUT = {"put", nullptr, nullptr, true};
constexpr protocol PUT_SIGNAL = {"put_signal", &tell_target, nullptr, true};
constexpr protocol GET = {"get", nullptr, nullptr, true};

errorcode_t start_put(outgoing& out) {
  network_key key;
  if (!is_plain(out)) [[unlikely]] {
    if (const auto code = out.host.accelerator->start_put(out, key)) return *code;
  }
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
  if (!is_plain(out)) [[unlikely]] {
    if (const auto code = out.host.accelerator->start_get(out, key)) return *code;
  }
  if (const auto code = register_host(out, key); is_retry(code)) return code;
  transfer* move = make_transfer(out, transfer::verb::get, GET);
  move->packet = nullptr;
  take_key(*move, key);
  return launch(out, move, false);
}

}  // namespace lci::proto
