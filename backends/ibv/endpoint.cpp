#include "backends/ibv/endpoint.hpp"

#include <arpa/inet.h>

#include <cstring>

#include "backends/ibv/fabric.hpp"

namespace lci::ibv {
namespace {

std::uint64_t address_of(const void* p) noexcept { return reinterpret_cast<std::uint64_t>(p); }

}  // namespace

endpoint::endpoint(fabric& f, port& p) noexcept
    : fabric_(f), port_(p), memory_(f.memory()), me_(f.rank()), max_inline_(f.caps().max_inject) {}

errorcode_t endpoint::send_inline(int rank, std::uint32_t imm, const void* head,
                                  std::size_t head_size, const void* payload,
                                  std::size_t size) noexcept {
  if (rank == me_) [[unlikely]]
    return port_.self().send(imm, head, head_size, payload, size);
  link* on = nullptr;
  if (const errorcode_t code = port_.ready(rank, on); code != errorcode_t::done) [[unlikely]]
    return code;
  ibv_sge parts[2];
  ibv_send_wr wr;
  wr.next = nullptr;
  wr.sg_list = parts;
  wr.num_sge = 0;
  if (head_size != 0)
    parts[wr.num_sge++] = {address_of(head), static_cast<std::uint32_t>(head_size), 0};
  if (size != 0) parts[wr.num_sge++] = {address_of(payload), static_cast<std::uint32_t>(size), 0};
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.send_flags = IBV_SEND_INLINE;
  wr.imm_data = htonl(imm);
  return port_.post(*on, wr, {.is_awaited = false});
}

errorcode_t endpoint::send(const net::net_op& op) noexcept {
  if (op.rank == me_) [[unlikely]]
    return port_.self().send(op);
  link* on = nullptr;
  if (const errorcode_t code = port_.ready(op.rank, on); code != errorcode_t::done) [[unlikely]]
    return code;
  ibv_sge part{address_of(op.buffer), static_cast<std::uint32_t>(op.size), 0};
  ibv_send_wr wr;
  wr.next = nullptr;
  wr.sg_list = &part;
  wr.num_sge = op.size != 0 ? 1 : 0;
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.send_flags = 0;
  wr.imm_data = htonl(op.imm);
  const send_record record{op.context, op.packet};
  if (op.size != 0 && !memory_.find_key(op.buffer, op.size, op.local_key, part.lkey)) [[unlikely]]
    return send_copy(*on, op);
  const errorcode_t code = port_.post(*on, wr, record);
  // A packet that nobody waits for is ours now, so its sender is done.
  const bool is_open = op.packet == nullptr || op.context != nullptr;
  return code == errorcode_t::done && is_open ? errorcode_t::posted : code;
}

// A buffer that nobody has registered: its copy goes, so it is free at once.
errorcode_t endpoint::send_copy(link& on, const net::net_op& op) noexcept {
  mem::packet* const packet = port_.packets().get();
  if (packet == nullptr) return errorcode_t::retry_nomem;
  std::memcpy(packet->payload(), op.buffer, op.size);
  ibv_sge part{address_of(packet->payload()), static_cast<std::uint32_t>(op.size), 0};
  ibv_send_wr wr{};
  wr.sg_list = &part;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.imm_data = htonl(op.imm);
  errorcode_t code = errorcode_t::retry_nomem;
  if (memory_.find_key(packet->payload(), op.size, 0, part.lkey))
    code = port_.post(on, wr, {nullptr, packet});
  if (code != errorcode_t::done) packet->pool->put(packet);
  return code;
}

errorcode_t endpoint::put(const net::net_op& op) noexcept { return rma(op, IBV_WR_RDMA_WRITE); }
errorcode_t endpoint::put_imm(const net::net_op& op) noexcept {
  return rma(op, IBV_WR_RDMA_WRITE_WITH_IMM);
}
errorcode_t endpoint::get(const net::net_op& op) noexcept { return rma(op, IBV_WR_RDMA_READ); }

// The card's key for the local end; a buffer that nobody has registered is, for this operation.
bool endpoint::take_local(const net::net_op& op, ibv_sge& sge, send_record& record) noexcept {
  if (op.size == 0 || memory_.find_key(op.buffer, op.size, op.local_key, sge.lkey)) return true;
  try {
    std::string why_not;
    record.key = memory_.add(op.buffer, op.size, op.kind, why_not);
    return record.key != 0 && memory_.find_key(op.buffer, op.size, record.key, sge.lkey);
  } catch (const std::exception&) {
    return false;
  }
}

// Where the other end is. posted: the operation makes no sense, and on_error() says so.
errorcode_t endpoint::take_remote(const net::net_op& op, ibv_send_wr& wr) noexcept {
  using said = net::remote_view::answer;
  if (op.at.key != 0) {
    wr.wr.rdma.remote_addr = op.at.address + op.remote_offset;
    wr.wr.rdma.rkey = static_cast<std::uint32_t>(op.at.key);
    return errorcode_t::done;
  }
  const net::remote_view found = fabric_.keys().find(op.rank, op.remote);
  if (found.what == said::not_connected) return errorcode_t::retry_nomem;
  if (found.what == said::unknown_key || op.remote_offset > found.size ||
      op.size > found.size - op.remote_offset) {
    const bool was_said =
        port_.fail_later(op.rank, op.context, "the remote key is unknown, or the range is outside");
    return was_said ? errorcode_t::posted : errorcode_t::retry_nomem;
  }
  if (found.at.key == 0 && op.size != 0) {
    const bool was_said = port_.fail_later(op.rank, op.context, "no card was given that memory");
    return was_said ? errorcode_t::posted : errorcode_t::retry_nomem;
  }
  wr.wr.rdma.remote_addr = found.at.address + op.remote_offset;
  wr.wr.rdma.rkey = static_cast<std::uint32_t>(found.at.key);
  return errorcode_t::done;
}

errorcode_t endpoint::rma(const net::net_op& op, ibv_wr_opcode what) noexcept {
  if (op.rank == me_) [[unlikely]]
    return what == IBV_WR_RDMA_READ ? port_.self().get(op)
                                    : port_.self().put(op, what == IBV_WR_RDMA_WRITE_WITH_IMM);
  link* on = nullptr;
  if (const errorcode_t code = port_.ready(op.rank, on); code != errorcode_t::done) [[unlikely]]
    return code;
  ibv_sge part{address_of(op.buffer), static_cast<std::uint32_t>(op.size), 0};
  ibv_send_wr wr;
  wr.next = nullptr;
  wr.sg_list = &part;
  wr.num_sge = op.size != 0 ? 1 : 0;
  wr.opcode = what;
  // Writes and sends of one queue pair take effect in order; only reads have to be waited for.
  wr.send_flags = op.fence ? IBV_SEND_FENCE : 0;
  wr.imm_data = htonl(op.imm);
  if (const errorcode_t code = take_remote(op, wr); code != errorcode_t::done) return code;
  send_record record{op.context};
  if (!take_local(op, part, record)) {
    const bool was_said =
        port_.fail_later(op.rank, op.context, "the local buffer cannot be registered");
    return was_said ? errorcode_t::posted : errorcode_t::retry_nomem;
  }
  if (what == IBV_WR_RDMA_WRITE && op.size <= max_inline_ && record.key == 0 &&
      op.kind == mem::mem_kind::host)
    wr.send_flags |= IBV_SEND_INLINE;
  record.is_awaited = op.context != nullptr || (wr.send_flags & IBV_SEND_INLINE) == 0;
  const errorcode_t code = port_.post(*on, wr, record);
  if (code == errorcode_t::done) return errorcode_t::posted;
  if (record.key != 0) memory_.remove(record.key);
  return code;
}

}  // namespace lci::ibv
