#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "lci/proto/engine/post_queue.hpp"

#include "lci/proto/engine/progress_engine.hpp"

namespace lci::proto {

void queue_return::operator()(post_queue* one) const noexcept { one->engine.take_back(*one); }

void post_queue::queue(int rank, std::unique_ptr<backlog_entry>&& entry) {
  engine.expect_leftovers(1);
  try {
    log.push(rank, std::move(entry));
  } catch (...) {
    engine.expect_leftovers(-1);
    throw;
  }
}

bool post_queue::accept_bytes(int rank, std::uint32_t imm, const void* body,
                              std::size_t size) noexcept {
  if (!log.pending(rank)) {
    const errorcode_t code = end_->send_inline(rank, imm, nullptr, 0, body, size);
    if (!is_retry(code)) return true;  // sent, or the peer has ended and it is not needed
  }
  engine.expect_leftovers(1);
  if (log.push_message(rank, imm, body, size)) return true;
  engine.expect_leftovers(-1);
  return false;
}

void post_queue::send_control_bytes(int rank, std::uint32_t imm, const void* body,
                                    std::size_t size) noexcept {
  if (!accept_bytes(rank, imm, body, size))
    engine.errors.keep(std::make_exception_ptr(std::bad_alloc()));
}

// Posts pieces until one is under way or the whole is done. On posted the record may already belong
// to the polling thread.
errorcode_t post_queue::advance(transfer& move) noexcept {
  if (move.carrier != nullptr) [[unlikely]] {
    move.carrier->start(move);
    return errorcode_t::posted;
  }
  const net::capabilities& can = engine.fabric.caps_of(move.op.rank);
  const std::size_t piece = engine.piece_of(can);
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
    const bool with_imm = last && tells_with_data(move, can);
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

// Every byte is there, and the target needs no message about it: the end of its rank changes
// nothing.
LCI_COLD static bool is_all_done(const transfer& move) noexcept {
  return move.carrier == nullptr && move.begun && move.at >= move.total &&
         (move.of->on_complete == nullptr ||
          tells_with_data(move, move.queue->engine.fabric.caps_of(move.op.rank)));
}

void post_queue::start(transfer& move) noexcept {
  errorcode_t code = errorcode_t::done;
  if (engine.watch.has_ended(move.op.rank) && !is_all_done(move)) [[unlikely]] {
    // A backend may go on refusing what is for a dead peer; nothing would ever end the transfer.
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
      return engine.park(move);
    }
  }
  if (code == errorcode_t::posted) return;
  if (code != errorcode_t::done) refused(move);
  conclude(move);
}

// The network knows that the peer has ended, and has not told us yet.
LCI_COLD void post_queue::refused(transfer& move) noexcept {
  move.failed = true;
  engine.watch.miss(move.op.rank);
}

void post_queue::conclude(transfer& move) noexcept {
  if (move.failed) [[unlikely]]
    return engine.abort(move);
  const protocol& of = *move.of;
  if (of.on_complete != nullptr && !of.on_complete(move)) [[unlikely]]
    return engine.park(move);
  engine.finish(move);
}

std::size_t post_queue::drain() noexcept {
  return log.drain([this](int rank, backlog_entry& entry,
                          transfer*& ended) { return try_entry(rank, entry, ended); },
                   [this](transfer& move) { conclude(move); });
}

// True: the entry was taken.
bool post_queue::try_entry(int rank, backlog_entry& entry, transfer*& ended) noexcept {
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
  } else if (entry.packet == nullptr && entry.size() <= engine.fabric.caps_of(rank).max_inject) {
    code = end_->send_inline(rank, entry.imm, nullptr, 0, entry.data(), entry.size());
  } else {
    if (entry.packet == nullptr) {
      entry.packet = engine.pool.get();
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
      mem::release_packet(engine.shared.arena, entry.packet);  // the peer has ended
  }
  if (is_retry(code)) return false;
  engine.expect_leftovers(-1);
  return true;
}

void post_queue::forget(int rank) noexcept {
  log.clear(rank, [this](backlog_entry& entry) {
    engine.expect_leftovers(-1);
    if (entry.packet != nullptr) mem::release_packet(engine.shared.arena, entry.packet);
    if (entry.move != nullptr) engine.abort(*entry.move);
  });
}

}  // namespace lci::proto
