#include "lci/proto/host/transfers.hpp"

#include <memory>
#include <utility>

namespace lci::proto {

transfer* make_transfer(const outgoing& out, transfer::verb what, const protocol& of) {
  progress_engine& engine = out.queue.engine;
  transfer* move = engine.shared.transfers.get();
  *move = transfer{};
  move->queue = &out.queue;
  move->of = &of;
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
  engine.open.add(1);
  return move;
}

void take_key(transfer& move, network_key& key) noexcept {
  if (key.get() == 0) return;
  move.op.local_key = move.own_key = key.release();
}

void undo_transfer(transfer* move) {
  progress_engine& engine = move->queue->engine;
  if (move->own_key != 0) engine.fabric.deregister_region(move->own_key);
  if (move->carrier != nullptr) [[unlikely]]
    move->carrier->discard(*move);
  engine.open.add(-1);
  engine.shared.transfers.put(move);
}

errorcode_t answer_of(outgoing& out, transfer* move, errorcode_t code) {
  if (code == errorcode_t::posted) return code;
  if (code == errorcode_t::done) {
    out.queue.engine.finish_later(*move);
    return errorcode_t::posted;
  }
  undo_transfer(move);
  return code;
}

errorcode_t queue_transfer(outgoing& out, transfer* move) {
  try {
    auto entry = std::make_unique<backlog_entry>();
    entry->move = move;
    out.queue.queue(out.rank, std::move(entry));
  } catch (...) {
    undo_transfer(move);
    throw;
  }
  return errorcode_t::posted_backlog;
}

}  // namespace lci::proto
