#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "lci/proto/channel.hpp"

namespace lci::proto {

void port::queue(int rank, std::unique_ptr<backlog_entry>&& entry) {
  via.backlogged_.fetch_add(1, std::memory_order_relaxed);
  try {
    log.push(rank, std::move(entry));
  } catch (...) {
    via.backlogged_.fetch_sub(1, std::memory_order_relaxed);
    throw;
  }
}

bool port::accept_bytes(int rank, std::uint32_t imm, const void* body, std::size_t size) noexcept {
  if (!log.pending(rank)) {
    const errorcode_t code = end_->send_inline(rank, imm, nullptr, 0, body, size);
    if (!is_retry(code)) return true;  // sent, or the peer is gone and nobody needs it
  }
  via.backlogged_.fetch_add(1, std::memory_order_relaxed);
  if (log.push_message(rank, imm, body, size)) return true;
  via.backlogged_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

void port::send_control_bytes(int rank, std::uint32_t imm, const void* body,
                              std::size_t size) noexcept {
  if (!accept_bytes(rank, imm, body, size)) via.keep(std::make_exception_ptr(std::bad_alloc()));
}

// Posts pieces until one is under way or the whole is done. On posted the record may already belong
// to the polling thread.
errorcode_t port::advance(transfer& move) noexcept {
  if (move.direct != nullptr) {
    start_direct(via, move);
    return errorcode_t::posted;
  }
  const net::capabilities& can = via.fabric.caps_of(move.op.rank);
  const std::size_t piece = std::min(via.max_piece, can.max_rma);
  bool first = true;
  while (first || move.at < move.total) {
    first = false;
    net::net_op& op = move.op;
    op.buffer = move.base + move.at;
    op.size =
        move.what == transfer::verb::send ? move.total : std::min(piece, move.total - move.at);
    op.remote_offset = move.remote_base + move.at;
    op.context = &move;
    const bool last = move.at + op.size == move.total;
    const bool with_imm =
        last && move.end != ending::none && move.imm != 0 && can.write_with_immediate;
    op.imm = with_imm || move.what == transfer::verb::send ? move.imm : 0;
    errorcode_t code;
    switch (move.what) {
      case transfer::verb::send:
        code = end_->send(op);
        break;
      case transfer::verb::get:
        code = end_->get(op);
        break;
      case transfer::verb::put:
        code = with_imm ? end_->put_imm(op) : end_->put(op);
        break;
    }
    if (code != errorcode_t::done) return code;
    move.at += op.size;
  }
  return errorcode_t::done;
}

void port::start(transfer& move) noexcept {
  errorcode_t code = errorcode_t::done;
  if (via.shared.is_gone(move.op.rank)) [[unlikely]] {
    // A backend may go on refusing what is for a dead peer; nobody would ever end the transfer.
    move.failed = true;
    return conclude(move);
  }
  // An empty transfer is at its end before its one piece was posted; `begun` keeps the two apart.
  if (!move.begun || move.at < move.total) {
    const bool was_begun = move.begun;
    move.begun = true;
    code = advance(move);
    if (is_retry(code)) {
      move.begun = was_begun;
      return via.park(move);
    }
  }
  if (code == errorcode_t::posted) return;
  if (code != errorcode_t::done) refused(move);
  conclude(move);
}

// The network knows that the peer is gone, and has not told us yet.
LCI_COLD void port::refused(transfer& move) noexcept {
  move.failed = true;
  via.miss(move.op.rank);
}

// Every byte is there. Where the network could not carry the news with the data, it follows as a
// message.
bool port::announce(const transfer& move) noexcept {
  if (move.end == ending::none || move.end == ending::piece || move.is_flagged) return true;
  if (move.imm != 0 && !move.is_direct && via.fabric.caps_of(move.op.rank).write_with_immediate)
    return true;
  if (move.end == ending::offer)
    return via.control.accept_control(move.op.rank, wire::staged_imm(wire::staged_kind::offer_end),
                                      wire::offer_end{move.peer_state, move.total, 1, 0});
  if (move.end == ending::immediate)
    return accept_control(move.op.rank, wire::kind_imm(wire::kind::signal),
                          wire::signal_body{move.imm});
  return accept_control(move.op.rank, wire::kind_imm(wire::kind::fin), wire::fin{move.peer_state});
}

void port::conclude(transfer& move) noexcept {
  if (!move.failed && !announce(move)) [[unlikely]]
    return via.park(move);
  via.finish(move);
}

bool port::try_entry(int rank, backlog_entry& entry, transfer*& ended) noexcept {
  errorcode_t code;
  if (entry.move != nullptr) {
    entry.move->begun = true;
    code = advance(*entry.move);
    if (is_retry(code)) {
      entry.move->begun = false;
      return false;
    }
    if (code != errorcode_t::posted) {
      if (code != errorcode_t::done) refused(*entry.move);
      ended = entry.move;
    }
    entry.move = nullptr;
  } else if (entry.packet == nullptr && entry.size() <= via.fabric.caps_of(rank).max_inject) {
    code = end_->send_inline(rank, entry.imm, nullptr, 0, entry.data(), entry.size());
  } else {
    if (entry.packet == nullptr) {
      entry.packet = via.pool.get();
      if (entry.packet == nullptr) return false;
      entry.packet->length = static_cast<std::uint32_t>(entry.size());
      std::memcpy(entry.packet->payload(), entry.data(), entry.size());
    }
    net::net_op op;
    op.rank = rank;
    op.imm = entry.imm;
    op.buffer = entry.packet->payload();
    op.size = entry.packet->length;
    op.packet = entry.packet;
    code = end_->send(op);
    if (!is_retry(code) && code != errorcode_t::done && code != errorcode_t::posted)
      mem::release_packet(via.shared.arena, entry.packet);  // the peer is gone
  }
  if (is_retry(code)) return false;
  via.backlogged_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

void port::forget(int rank) noexcept {
  log.clear(rank, [this](backlog_entry& entry) {
    via.backlogged_.fetch_sub(1, std::memory_order_relaxed);
    if (entry.packet != nullptr) mem::release_packet(via.shared.arena, entry.packet);
    if (entry.move != nullptr) {
      entry.move->failed = true;
      via.finish(*entry.move);
    }
  });
}

}  // namespace lci::proto
