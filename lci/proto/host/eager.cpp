#include "lci/proto/host/eager.hpp"

#include <cstring>
#include <memory>
#include <utility>

#include "lci/base/copy.hpp"
#include "lci/proto/host/select.hpp"
#include "lci/proto/host/transfers.hpp"

namespace lci::proto {

namespace {

bool accepts_copy(const outgoing& out) noexcept {
  // With an extended head the copy is needed anyway.
  return (!out.has_mr || out.extended) && out.size <= out.bcopy_limit;
}

// The one place that decides it. Posts try a part of it beforehand: those of at most inject_limit
// bytes that have nothing special.
bool may_inject(const outgoing& out) noexcept {
  if (out.wants_network) return false;
  if (out.size <= out.inject_limit && !out.extended) return true;
  return accepts_copy(out) &&
         out.head_size() + out.size <= out.queue.engine.fabric.caps_of(out.rank).max_inject;
}

bool may_go_from_place(const outgoing& out) noexcept {
  return out.size <= out.bcopy_limit && !out.extended &&
         out.size <= out.queue.engine.fabric.caps_of(out.rank).max_send;
}

errorcode_t start_zero_copy(outgoing& out);

void release_user_packet(outgoing& out) noexcept {
  if (out.packet != nullptr) mem::release_packet(out.shared().arena, out.packet);
}

void copy_message(const outgoing& out, std::byte* to) noexcept {
  if (out.extended) {
    const auto head = wire::extended_head::of(out.rcomp, out.tag);
    std::memcpy(to, &head, sizeof(head));
  }
  if (out.size != 0) base::copy_small(to + out.head_size(), out.buffer, out.size);
}

// The caller wants no retry: what the network refuses is kept, as a copy or in the packet it is in.
errorcode_t queue_copy(outgoing& out) {
  auto entry = std::make_unique<backlog_entry>();
  entry->imm = out.imm();
  mem::packet* const ready = out.ready_packet();
  if (ready != nullptr) {
    ready->length = static_cast<std::uint32_t>(out.size);
    entry->packet = ready;
  } else {
    entry->bytes.resize(out.head_size() + out.size);
    copy_message(out, entry->bytes.data());
  }
  out.queue.queue(out.rank, std::move(entry));
  if (ready == nullptr) release_user_packet(out);
  return errorcode_t::done_backlog;
}

// Of a message that goes as a packet, also where the network is to be done with it. Throws
// std::bad_alloc.
errorcode_t send_packet(outgoing& out, mem::packet* packet, std::size_t length) {
  net::net_op op;
  op.rank = out.rank;
  op.imm = out.imm();
  op.buffer = packet->payload();
  op.size = length;
  op.packet = packet;
  if (!out.wants_network) return out.queue.end().send(op);
  transfer* const move = make_transfer(out, transfer::verb::send, BCOPY);
  move->begun = true;
  op.context = move;
  move->op.size = length;  // on_complete() then finds the message at its end
  move->total = length;
  const bool is_behind = out.queue.log.pending(out.rank);
  return answer_of(out, move, is_behind ? errorcode_t::retry_backlog : out.queue.end().send(op));
}

errorcode_t start_inject(outgoing& out) {
  errorcode_t code = errorcode_t::retry_backlog;
  if (!out.queue.log.pending(out.rank)) {
    const auto head = wire::extended_head::of(out.rcomp, out.tag);
    code = out.queue.end().send_inline(out.rank, out.imm(), &head, out.head_size(), out.buffer,
                                       out.size);
  }
  if (code == errorcode_t::done) [[likely]] {
    release_user_packet(out);
    return code;
  }
  if (is_retry(code) && !out.may_retry) return queue_copy(out);
  return code;
}

// The network refuses the message or others wait before it, and its sender waits for the network.
// From its place it would go without its head.
errorcode_t start_otherwise(outgoing& out) {
  return out.extended ? start_rendezvous(out) : start_zero_copy(out);
}

errorcode_t start_bcopy(outgoing& out) {
  const std::size_t length = out.head_size() + out.size;
  if (out.queue.log.pending(out.rank)) {
    if (out.may_retry) return errorcode_t::retry_backlog;
    if (!out.wants_network) return queue_copy(out);
  }
  mem::packet* packet = out.ready_packet();
  if (packet == nullptr) {
    packet = out.pool.get();
    if (packet == nullptr) {
      if (out.may_retry) return errorcode_t::retry_nopacket;
      if (!out.wants_network) return queue_copy(out);
      return start_otherwise(out);
    }
    copy_message(out, packet->payload());
  }
  errorcode_t code;
  try {
    code = send_packet(out, packet, length);
  } catch (...) {
    if (packet != out.packet) out.pool.put(packet);
    throw;
  }
  if (code == errorcode_t::done || code == errorcode_t::posted) {
    if (packet != out.packet) release_user_packet(out);
    return code;
  }
  if (packet != out.packet) out.pool.put(packet);
  if (is_retry(code) && !out.may_retry)
    return out.wants_network ? start_otherwise(out) : queue_copy(out);
  return code;
}

errorcode_t start_zero_copy(outgoing& out) {
  network_key key;
  if (out.local_key == 0) {
    if (const errorcode_t code = out.refusal(); is_retry(code)) return code;
    key = key_for(out.host, out.rank, out.buffer, out.size, out.kind);
  }
  transfer* move = make_transfer(out, transfer::verb::send, ZERO_COPY);
  move->imm = out.imm();
  take_key(*move, key);
  if (out.queue.log.pending(out.rank)) {
    if (!out.may_retry) {
      move->packet = out.packet;
      return queue_transfer(out, move);
    }
    undo_transfer(move);
    return errorcode_t::retry_backlog;
  }
  move->begun = true;
  move->packet = out.packet;  // given back when the network is done with it
  const errorcode_t code = out.queue.advance(*move);
  if (is_retry(code) && !out.may_retry) {
    move->begun = false;
    return queue_transfer(out, move);
  }
  return answer_of(out, move, code);
}

}  // namespace

constexpr post_protocol INJECT = {{"inject", nullptr, nullptr, true}, &may_inject, &start_inject};
constexpr post_protocol BCOPY = {{"bcopy", nullptr, nullptr, true}, &accepts_copy, &start_bcopy};
constexpr post_protocol ZERO_COPY = {
    {"zero_copy", nullptr, nullptr, true}, &may_go_from_place, &start_zero_copy};

}  // namespace lci::proto
