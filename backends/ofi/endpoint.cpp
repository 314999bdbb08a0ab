#include "backends/ofi/endpoint.hpp"

#include "lci/net/connected/ends.hpp"

namespace lci::ofi {

// One access to a peer's memory.
struct endpoint::transfer {
  access what;
  const void* buffer;
  std::size_t size;
  void* local;
  std::uint64_t address, key, word;
};

endpoint::endpoint(device_queues& queues, key_cache& keys) noexcept
    : queues_(queues),
      keys_(keys),
      memory_(queues.memory()),
      me_(queues.me()),
      keeps_write_order_(keeps_write_order(*queues.domain().info)),
      write_flags_(FI_COMPLETION |
                   (queues.domain().how == delivery::complete       ? FI_DELIVERY_COMPLETE
                    : queues.domain().how == delivery::acknowledged ? FI_TRANSMIT_COMPLETE
                                                                    : 0)) {}

// Where the provider keeps no order between writes and what follows, as none does for reads, we
// wait until they are there.
bool endpoint::must_wait(const connection& on, bool is_fenced, follower what) const noexcept {
  if (keeps_write_order_ && what != follower::read) return false;
  return is_fenced ? on.has_writes() : on.has_silent_writes();
}

errorcode_t endpoint::send_inline(int rank, std::uint32_t imm, const void* head,
                                  std::size_t head_size, const void* payload,
                                  std::size_t size) noexcept {
  if (rank == me_) [[unlikely]]
    return queues_.self().send(imm, head, head_size, payload, size);
  errorcode_t refusal{};
  connection* const on = queues_.ready(rank, refusal);
  if (on == nullptr) [[unlikely]]
    return refusal;
  if (must_wait(*on, false, follower::message) || !on->take_credit()) [[unlikely]]
    return errorcode_t::retry_nomem;
  const errorcode_t code =
      queues_.send_small(*on, word_of(word::kind::message, imm), head, head_size, payload, size);
  if (code != errorcode_t::done) [[unlikely]]
    on->give_back_credit();
  return code;
}

errorcode_t endpoint::would_post(int rank) noexcept {
  errorcode_t refusal{};
  return rank == me_ || queues_.ready(rank, refusal) != nullptr ? errorcode_t::done : refusal;
}

errorcode_t endpoint::send(const net::net_op& op) noexcept {
  if (op.rank == me_) [[unlikely]]
    return queues_.self().send(op);
  errorcode_t refusal{};
  connection* const on = queues_.ready(op.rank, refusal);
  if (on == nullptr) [[unlikely]]
    return refusal;
  if (must_wait(*on, op.fence, follower::message) || !on->take_credit()) [[unlikely]]
    return errorcode_t::retry_nomem;
  const errorcode_t code = op.packet != nullptr ? send_packet(*on, op) : send_buffer(*on, op);
  if (code != errorcode_t::done && code != errorcode_t::posted) [[unlikely]]
    on->give_back_credit();
  return code;
}

errorcode_t endpoint::send_packet(connection& on, const net::net_op& op) noexcept {
  work* const one = queues_.new_work(on, purpose::user);
  if (one == nullptr) return errorcode_t::retry_nomem;
  one->context = op.context;
  queues_.begin_user();
  const errorcode_t code =
      queues_.send_packet(on, word_of(word::kind::message, op.imm), *op.packet, op.size, *one);
  if (code != errorcode_t::done) queues_.end_user();
  // A packet that nothing waits for is ours now, so its sender is done.
  return code == errorcode_t::done && op.context != nullptr ? errorcode_t::posted : code;
}

// A copy goes, so the buffer is free at once.
errorcode_t endpoint::send_buffer(connection& on, const net::net_op& op) noexcept {
  return queues_.send_small(on, word_of(word::kind::message, op.imm), nullptr, 0, op.buffer,
                            op.size);
}

errorcode_t endpoint::rma(const net::net_op& op, access what) noexcept {
  if (op.rank == me_) [[unlikely]]
    return what == access::read ? queues_.self().get(op)
                                : queues_.self().put(op, what == access::write_and_tell);
  errorcode_t refusal{};
  connection* const on = queues_.ready(op.rank, refusal);
  if (on == nullptr) [[unlikely]]
    return refusal;
  const bool tells = what == access::write_and_tell;
  const follower kind = tells                  ? follower::message
                        : what == access::read ? follower::read
                                               : follower::write;
  if (must_wait(*on, op.fence, kind)) [[unlikely]]
    return errorcode_t::retry_nomem;
  net::remote_target at;
  if (const errorcode_t code = net::connected::find_remote_end(queues_, keys_, op, at);
      code != errorcode_t::done)
    return code;
  if (tells && !on->take_credit()) return errorcode_t::retry_nomem;
  const outcome made = op.size == 0 ? move_nothing(*on, op, what) : post(*on, op, what, at);
  if (tells && !made.is_out) on->give_back_credit();
  return made.answer;
}

// Providers differ in what they make of no bytes.
endpoint::outcome endpoint::move_nothing(connection& on, const net::net_op& op,
                                         access what) noexcept {
  if (what != access::write_and_tell) return {errorcode_t::done};
  const errorcode_t code =
      queues_.send_small(on, word_of(word::kind::immediate, op.imm), nullptr, 0, nullptr, 0);
  return {code, code == errorcode_t::done};
}

endpoint::outcome endpoint::post(connection& on, const net::net_op& op, access what,
                                 const net::remote_target& at) noexcept {
  transfer t{what,
             op.buffer,
             op.size,
             nullptr,
             at.address + op.remote_offset,
             at.key - 1,
             word_of(word::kind::immediate, op.imm)};
  std::uint64_t made = 0;
  errorcode_t code =
      net::connected::find_local_end(queues_, memory_, op, made, [&](std::uint64_t key) {
        return memory_.find_local(op.buffer, op.size, op.kind, key, t.local);
      });
  if (code != errorcode_t::done) return {code};
  work* const one = queues_.new_work(on, purpose::user);
  code = errorcode_t::retry_nomem;
  if (one != nullptr) {
    one->context = op.context;
    one->key = made;
    one->is_write = what != access::read;
    // In order from now on: see must_wait().
    one->is_silent =
        one->is_write && (op.context == nullptr || (op.in_order && keeps_write_order_));
    one->is_answered = !one->is_write || queues_.domain().how != delivery::asked;
    queues_.begin_user();
    code = queues_.post(on, *one,
                        [&](fid_ep* ep, ticket* context) { return give(on, t, ep, context); });
    if (code != errorcode_t::done) queues_.end_user();
  }
  if (code == errorcode_t::done) return {errorcode_t::posted, true};
  if (made != 0) memory_.remove(made);
  return {code};
}

long endpoint::give(const connection& on, const transfer& what, fid_ep* ep,
                    ticket* context) const noexcept {
  if (what.what == access::read)
    return fi_read(ep, const_cast<void*>(what.buffer), what.size, what.local, on.keys, what.address,
                   what.key, context);
  const iovec local{const_cast<void*>(what.buffer), what.size};
  const fi_rma_iov remote{what.address, what.size, what.key};
  void* described = what.local;
  fi_msg_rma msg{};
  msg.msg_iov = &local;
  msg.desc = &described;
  msg.iov_count = 1;
  msg.addr = on.keys;
  msg.rma_iov = &remote;
  msg.rma_iov_count = 1;
  msg.context = context;
  msg.data = what.word;
  const bool tells = what.what == access::write_and_tell;
  return fi_writemsg(ep, &msg, write_flags_ | (tells ? FI_REMOTE_CQ_DATA : 0));
}

}  // namespace lci::ofi
