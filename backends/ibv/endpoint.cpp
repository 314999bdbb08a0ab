#include "backends/ibv/endpoint.hpp"

#include <cstring>

#include "backends/ibv/work.hpp"
#include "lci/net/connected/ends.hpp"

namespace lci::ibv {

namespace {

bool is_in_order(const net::net_op& op) noexcept { return op.in_order || op.context == nullptr; }

}  // namespace

endpoint::endpoint(device_queues& queues, key_cache& keys, claim by) noexcept
    : queues_(queues),
      keys_(keys),
      memory_(queues.memory()),
      me_(queues.behind().config().book->rank()),
      by_(by),
      max_inline_(queues.behind().caps().max_inject) {}

errorcode_t endpoint::send_inline(int rank, std::uint32_t imm, const void* head,
                                  std::size_t head_size, const void* payload,
                                  std::size_t size) noexcept {
  if (rank == me_) [[unlikely]]
    return queues_.self().send(imm, head, head_size, payload, size);
  connection* const on = queues_.find_checked(rank);
  if (on == nullptr) [[unlikely]]
    return queues_.no_connection(rank);
  work one(IBV_WR_SEND_WITH_IMM, IBV_SEND_INLINE, imm);
  one.add(head, head_size);
  one.add(payload, size);
  return on->post(one.wr, by_);
}

errorcode_t endpoint::would_post(int rank) noexcept {
  if (rank == me_) return errorcode_t::done;
  errorcode_t refusal{};
  connection* const on = queues_.ready(rank, refusal);
  if (on == nullptr) return refusal;
  return on->has_room(by_) ? errorcode_t::done : errorcode_t::retry_nomem;
}

errorcode_t endpoint::send(const net::net_op& op) noexcept {
  if (op.rank == me_) [[unlikely]]
    return queues_.self().send(op);
  errorcode_t refusal{};
  connection* const on = queues_.ready(op.rank, refusal);
  if (on == nullptr) [[unlikely]]
    return refusal;
  // What goes over other cards has to be there first.
  if (op.fence && on->has_splits()) [[unlikely]]
    return errorcode_t::retry_nomem;
  std::uint32_t key = 0;
  if (!memory_.find_key(op.buffer, op.size, op.local_key, key)) [[unlikely]]
    return send_copy(*on, op);
  work one(IBV_WR_SEND_WITH_IMM, 0, op.imm);
  one.add(op.buffer, op.size, key);
  const errorcode_t code = on->post(one.wr, {op.context, op.packet}, by_);
  // A packet that nothing waits for is ours now, so its sender is done.
  const bool is_open = op.packet == nullptr || op.context != nullptr;
  return code == errorcode_t::done && is_open ? errorcode_t::posted : code;
}

// A buffer that is not registered: its copy goes, so it is free at once.
errorcode_t endpoint::send_copy(connection& on, const net::net_op& op) noexcept {
  mem::packet* const packet = queues_.packets().get();
  if (packet == nullptr) return errorcode_t::retry_nomem;
  std::memcpy(packet->payload(), op.buffer, op.size);
  work one(IBV_WR_SEND_WITH_IMM, 0, op.imm);
  std::uint32_t key = 0;
  errorcode_t code = errorcode_t::retry_nomem;
  if (memory_.find_key(packet->payload(), op.size, 0, key)) {
    one.add(packet->payload(), op.size, key);
    code = on.post(one.wr, {nullptr, packet}, by_);
  }
  if (code != errorcode_t::done)
    mem::pool_of(*packet).put(packet);
  else if (op.packet != nullptr)  // ours now, and nothing is under way from it
    mem::pool_of(*op.packet).put(op.packet);
  return code;
}

errorcode_t endpoint::put(const net::net_op& op) noexcept { return rma(op, IBV_WR_RDMA_WRITE); }
errorcode_t endpoint::put_imm(const net::net_op& op) noexcept {
  return rma(op, IBV_WR_RDMA_WRITE_WITH_IMM);
}
errorcode_t endpoint::get(const net::net_op& op) noexcept { return rma(op, IBV_WR_RDMA_READ); }

errorcode_t endpoint::rma(const net::net_op& op, ibv_wr_opcode what) noexcept {
  if (op.rank == me_) [[unlikely]]
    return what == IBV_WR_RDMA_READ ? queues_.self().get(op)
                                    : queues_.self().put(op, what == IBV_WR_RDMA_WRITE_WITH_IMM);
  errorcode_t refusal{};
  connection* const on = queues_.ready(op.rank, refusal);
  if (on == nullptr) [[unlikely]]
    return refusal;
  // A post that the first card will refuse registers nothing.
  if (!on->has_room(by_)) return errorcode_t::retry_nomem;
  if (op.fence && on->has_splits()) [[unlikely]]
    return errorcode_t::retry_nomem;
  net::remote_target at;
  if (const errorcode_t code = net::connected::find_remote_end(queues_, keys_, op, at);
      code != errorcode_t::done)
    return code;
  // Writes and sends of one queue pair take effect in order; only reads have to be waited for.
  work one(what, op.fence ? IBV_SEND_FENCE : 0, op.imm);
  one.aim(at.address + op.remote_offset, key_in(at, 0));
  send_record record{.context = op.context, .in_order = is_in_order(op)};
  errorcode_t code = errorcode_t::done;
  if (what == IBV_WR_RDMA_WRITE && op.size <= max_inline_ && op.kind == mem::mem_kind::host) {
    one.wr.send_flags |= IBV_SEND_INLINE;
    one.add(op.buffer, op.size);
    const bool is_noted = op.context != nullptr || on->rails != 1;
    code = is_noted ? on->post(one.wr, record, by_) : on->post(one.wr, by_);
  } else {
    std::uint32_t key = 0;
    code = net::connected::find_local_end(
        queues_, memory_, op, record.key,
        [&](std::uint64_t local) { return memory_.find_key(op.buffer, op.size, local, key); });
    if (code != errorcode_t::done) return code;
    // A peer that is reached over several cards, which there are then.
    const bool is_cut =
        on->rails != 1 && queues_.rails()->post({op, what, *on, at, record.key}, code);
    if (!is_cut) [[likely]] {
      one.add(op.buffer, op.size, key);
      code = on->post(one.wr, record, by_);
    }
  }
  if (code == errorcode_t::done) return errorcode_t::posted;
  if (record.key != 0) memory_.remove(record.key);
  return code;
}

}  // namespace lci::ibv
