#include "lci/proto/eager.hpp"

#include <cstring>

namespace lci::proto {

namespace {

void release_user_packet(outgoing& out) noexcept {
  if (out.packet != nullptr) mem::release_packet(out.shared().arena, out.packet);
}

void copy_message(const outgoing& out, std::byte* to) noexcept {
  if (out.extended) {
    const auto head = wire::extended_head::of(out.rcomp, out.tag);
    std::memcpy(to, &head, sizeof(head));
  }
  if (out.size != 0) std::memcpy(to + out.head_size(), out.buffer, out.size);
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
  out.via.queue(out.rank, std::move(entry));
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
  if (!out.wants_network) return out.via.end().send(op);
  transfer* const move = make_transfer(out, transfer::verb::send);
  move->begun = true;
  op.context = move;
  move->op.size = length;  // on_complete() then finds the message at its end
  move->total = length;
  const bool is_behind = out.via.log.pending(out.rank);
  return answer_of(out, move, is_behind ? errorcode_t::retry_backlog : out.via.end().send(op));
}

}  // namespace

transfer* make_transfer(const outgoing& out, transfer::verb what) {
  channel& via = out.via.via;
  transfer* move = via.shared.transfers.get();
  *move = transfer{};
  move->via = &out.via;
  move->user = out.user;
  move->op.rank = out.rank;
  move->op.kind = out.kind;
  move->gpu = out.gpu;
  move->op.local_key = out.local_key;
  move->op.remote = out.remote;
  move->op.at = out.there.at;
  move->what = what;
  move->base = static_cast<std::byte*>(out.buffer);
  move->total = out.size;
  move->remote_base = out.remote_offset;
  move->counted = true;
  via.open.add(1);
  return move;
}

void take_key(transfer& move, network_key& key) noexcept {
  if (key.get() == 0) return;
  move.op.local_key = key.release();
  move.registered_here = true;
}

void undo_transfer(transfer* move) {
  channel& via = move->via->via;
  if (move->registered_here) via.fabric.deregister_region(move->op.local_key);
  discard_direct(via.shared, *move);
  via.open.add(-1);
  via.shared.transfers.put(move);
}

errorcode_t answer_of(outgoing& out, transfer* move, errorcode_t code) {
  if (code == errorcode_t::posted) return code;
  if (code == errorcode_t::done) {
    out.via.via.finish_later(*move);
    return errorcode_t::posted;
  }
  undo_transfer(move);
  return code;
}

errorcode_t queue_transfer(outgoing& out, transfer* move) {
  try {
    auto entry = std::make_unique<backlog_entry>();
    entry->move = move;
    out.via.queue(out.rank, std::move(entry));
  } catch (...) {
    undo_transfer(move);
    throw;
  }
  return errorcode_t::posted_backlog;
}

errorcode_t start_inject(outgoing& out) {
  errorcode_t code = errorcode_t::retry_backlog;
  if (!out.via.log.pending(out.rank)) {
    const auto head = wire::extended_head::of(out.rcomp, out.tag);
    code = out.via.end().send_inline(out.rank, out.imm(), &head, out.head_size(), out.buffer,
                                     out.size);
  }
  if (code == errorcode_t::done) [[likely]] {
    release_user_packet(out);
    return code;
  }
  if (is_retry(code) && !out.may_retry) return queue_copy(out);
  return code;
}

errorcode_t start_bcopy(outgoing& out) {
  const std::size_t length = out.head_size() + out.size;
  if (!out.wants_network && length <= out.via.via.fabric.caps_of(out.rank).max_inject)
    return start_inject(out);
  if (out.via.log.pending(out.rank)) {
    if (out.may_retry) return errorcode_t::retry_backlog;
    if (!out.wants_network) return queue_copy(out);
  }
  mem::packet* packet = out.ready_packet();
  if (packet == nullptr) {
    packet = out.pool.get();
    if (packet == nullptr) {
      if (out.may_retry) return errorcode_t::retry_nopacket;
      if (!out.wants_network) return queue_copy(out);
      return start_zero_copy(out);
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
    return out.wants_network ? start_zero_copy(out) : queue_copy(out);
  return code;
}

bool read_by_hand(const outgoing& out, hand_copy& bytes) noexcept {
  return out.shared().gpus.read_by_hand(bytes.data(), out.buffer, out.size);
}

std::optional<errorcode_t> start_by_hand(outgoing& out) {
  if (out.may_retry && out.via.log.pending(out.rank)) return errorcode_t::retry_backlog;
  hand_copy bytes;
  if (!read_by_hand(out, bytes)) return {};
  outgoing from_host = out.from_host(bytes.data());
  return start_bcopy(from_host);
}

errorcode_t start_zero_copy(outgoing& out) {
  network_key key;
  if (out.local_key == 0) {
    if (const errorcode_t code = out.refusal(); is_retry(code)) return code;
    key = key_for(out.via.via, out.rank, out.buffer, out.size, out.kind);
  }
  transfer* move = make_transfer(out, transfer::verb::send);
  move->imm = out.imm();
  take_key(*move, key);
  if (out.via.log.pending(out.rank)) {
    if (!out.may_retry) {
      move->packet = out.packet;
      return queue_transfer(out, move);
    }
    undo_transfer(move);
    return errorcode_t::retry_backlog;
  }
  move->begun = true;
  move->packet = out.packet;  // given back when the network is done with it
  const errorcode_t code = out.via.advance(*move);
  if (is_retry(code) && !out.may_retry) {
    move->begun = false;
    return queue_transfer(out, move);
  }
  return answer_of(out, move, code);
}

}  // namespace lci::proto
