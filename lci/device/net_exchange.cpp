#include "lci/device/net_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "lci/status.hpp"

namespace lci::device {

using wqe::be32;
using wqe::be64;
using wqe::opcode;
using wqe::syndrome;

// In front of each part; big-endian. A reply has its syndrome in `op` and no data.
struct net_exchange::header {
  static constexpr std::uint32_t REQUEST = 0x4c435158, REPLY = 0x4c435159;
  std::uint32_t kind = 0;
  std::uint32_t op = 0;  // and SOLICITED in bit 8
  std::uint32_t to_qpn = 0, from_qpn = 0;
  std::uint32_t imm = 0;     // of a reply: high half of what was there
  std::uint32_t length = 0;  // of the whole; of a reply: low half
  std::uint32_t offset = 0;  // of this part
  std::uint32_t ticket = 0;

  header in_order_of_wire() const {
    header h = *this;
    for (std::uint32_t* w :
         {&h.kind, &h.op, &h.to_qpn, &h.from_qpn, &h.imm, &h.length, &h.offset, &h.ticket})
      *w = be32(*w);
    return h;
  }
};

namespace {

constexpr std::size_t MOST_AT_ONCE = 256;  // of a part, kept on the stack
constexpr std::uint32_t SOLICITED_BIT = 0x100;

// `size` bytes of the pieces from `offset` on.
void gather(const local_data& from, std::uint32_t offset, std::byte* to, std::size_t size) {
  for (std::uint32_t i = 0; i < from.count && size != 0; ++i) {
    const local_piece& p = from.pieces[i];
    if (offset >= p.length) {
      offset -= p.length;
      continue;
    }
    const std::size_t n = std::min<std::size_t>(size, p.length - offset);
    std::memcpy(to, p.at + offset, n);
    to += n;
    size -= n;
    offset = 0;
  }
}

}  // namespace

net_exchange::net_exchange(net::endpoint& to, std::size_t max_inject, key_table& keys)
    : to_(to),
      part_(std::min(max_inject - sizeof(header), MOST_AT_ONCE)),
      memory_(keys, nullptr, 0) {}

void net_exchange::begin(outgoing& o) noexcept {
  o.ticket = ++tickets_;
  o.sent = 0;
  o.is_whole = o.is_answered = false;
  o.why = syndrome::none;
  if (o.data.length > MAX_LENGTH) {
    o.is_answered = true;
    o.why = syndrome::local_length;
    return;
  }
  if (std::find(out_.begin(), out_.end(), &o) == out_.end()) {
    try {
      out_.push_back(&o);
    } catch (const std::bad_alloc&) {
      o.is_answered = true;
      o.why = syndrome::local_qp_operation;
      return;
    }
  }
  post(o);
}

void net_exchange::forget(outgoing& o) noexcept {
  out_.erase(std::remove(out_.begin(), out_.end(), &o), out_.end());
}

void net_exchange::post(outgoing& o) noexcept {
  while (!o.is_whole && !o.is_answered) {
    const auto left = static_cast<std::uint32_t>(o.data.length) - o.sent;
    const std::size_t size = std::min<std::size_t>(left, part_);
    std::byte part[MOST_AT_ONCE];
    gather(o.data, o.sent, part, size);
    const header h =
        header{
            header::REQUEST, static_cast<std::uint32_t>(o.op) | (o.solicited ? SOLICITED_BIT : 0),
            o.to_qpn,        o.from_qpn,
            o.imm,           static_cast<std::uint32_t>(o.data.length),
            o.sent,          o.ticket}
            .in_order_of_wire();
    const errorcode_t code = to_.send_inline(o.rank, 0, &h, sizeof(h), part, size);
    if (error_t(code).is_retry()) return;
    if (code == errorcode_t::fatal) {
      o.is_answered = true;
      o.why = syndrome::retry_exceeded;
      return;
    }
    o.sent += static_cast<std::uint32_t>(size);
    o.is_whole = o.sent == o.data.length;
  }
}

net::verdict net_exchange::on_message(const net::arrival& message) noexcept {
  header h;
  if (message.size < sizeof(h)) return net::verdict::taken;
  std::memcpy(&h, message.data, sizeof(h));
  h = h.in_order_of_wire();
  try {
    if (h.kind == header::REQUEST)
      take_part(message.rank, h, message.data + sizeof(h), message.size - sizeof(h));
    else if (h.kind == header::REPLY)
      take_reply(message.rank, h);
  } catch (const std::bad_alloc&) {
    return net::verdict::deferred;  // nothing has changed, it comes again
  }
  return net::verdict::taken;
}

void net_exchange::take_part(int rank, const header& h, const std::byte* data, std::size_t size) {
  if (h.length > MAX_LENGTH || h.offset > h.length || size > h.length - h.offset ||
      (size == 0 && h.length != 0))
    return;
  const sender from{rank, h.from_qpn};
  if (in_.size() >= MAX_SENDERS && in_.find(from) == in_.end()) {
    // Once for a request: its other parts come as well.
    if (h.offset == 0 && replies_.size() < MAX_REPLIES)
      replies_.push_back({rank, h.from_qpn, h.ticket, syndrome::remote_operation, 0});
    return;
  }
  incoming& m = in_[from];
  if (m.ticket != h.ticket) {
    // Numbers grow, so one that is behind is late; its sender has ended it.
    if (m.ticket != 0 && static_cast<std::int32_t>(h.ticket - m.ticket) < 0) return;
    std::vector<std::byte> room(h.length);
    m.data.swap(room);
    m.ticket = h.ticket;
    m.received = 0;
    m.is_due = false;
    m.op = static_cast<opcode>(h.op & 0xff);
    m.solicited = (h.op & SOLICITED_BIT) != 0;
    m.to_qpn = h.to_qpn;
    m.imm = h.imm;
  }
  if (m.data.size() != h.length || m.is_due) return;
  if (size != 0) std::memcpy(m.data.data() + h.offset, data, size);
  m.received += static_cast<std::uint32_t>(size);
  m.is_due = m.received >= h.length;
  if (m.is_due) settle(from, m);
}

// Edge of trust: numbers from the wire name nothing but what is in the tables here.
answer net_exchange::deliver(const sender& from, incoming& m, std::uint64_t* old) noexcept {
  const local_piece piece{m.data.data(), static_cast<std::uint32_t>(m.data.size())};
  const local_data data{&piece, m.data.empty() ? 0u : 1u, m.data.size()};
  if (is_atomic(m.op)) {
    atomic_data a;
    if (m.data.size() != sizeof(a)) return failed(syndrome::remote_invalid_request);
    std::memcpy(&a, m.data.data(), sizeof(a));
    const std::uint32_t size = be32(a.size);
    if (size != 8 && size != 4) return failed(syndrome::remote_invalid_request);
    std::byte was[8] = {};
    const answer done = memory_.atomic(
        m.op, {be64(a.swap_add), be64(a.compare), be64(a.swap_mask), be64(a.compare_mask), size},
        {be64(a.address), be32(a.key)}, was);
    if (size == 4) {
      std::uint32_t word;
      std::memcpy(&word, was, 4);
      *old = word;
    } else {
      std::memcpy(old, was, 8);
    }
    return done;
  }
  const auto found = receivers_.find(m.to_qpn);
  if (found == receivers_.end()) return failed(syndrome::retry_exceeded);
  if (m.op == opcode::rdma_write_imm) {
    std::uint32_t length = 0;
    if (m.data.size() != sizeof(length)) return failed(syndrome::remote_invalid_request);
    std::memcpy(&length, m.data.data(), sizeof(length));
    return found->second->notify(be32(length), m.imm, from.second, m.solicited);
  }
  if (!takes_inline(m.op) || m.op == opcode::rdma_write)
    return failed(syndrome::remote_invalid_request);
  return found->second->take(m.op, data, m.imm, from.second, m.solicited);
}

// It stays due while its receiver is not ready, or there is no place for the reply. That is made
// first, so that what was delivered is answered.
void net_exchange::settle(const sender& from, incoming& m) noexcept {
  if (replies_.size() >= MAX_REPLIES) return;
  try {
    replies_.push_back({from.first, from.second, m.ticket, syndrome::none, 0});
  } catch (const std::bad_alloc&) {
    return;
  }
  const answer a = deliver(from, m, &replies_.back().old);
  if (a.what == outcome::retry) {
    replies_.pop_back();
    return;
  }
  replies_.back().why = a.what == outcome::failed ? a.why : syndrome::none;
  m.is_due = false;
}

void net_exchange::take_reply(int rank, const header& h) noexcept {
  for (outgoing* const o : out_) {
    if (o->rank != rank || o->from_qpn != h.to_qpn || o->ticket != h.ticket || o->is_answered)
      continue;
    o->why = static_cast<syndrome>(h.op & 0xff);
    o->old = std::uint64_t{h.imm} << 32 | h.length;
    o->is_answered = true;
  }
}

void net_exchange::on_peer_ended(int rank) noexcept {
  for (outgoing* const o : out_) {
    if (o->rank != rank || o->is_answered) continue;
    o->why = syndrome::retry_exceeded;
    o->is_answered = true;
  }
  for (auto it = in_.begin(); it != in_.end();)
    it = it->first.first == rank ? in_.erase(it) : std::next(it);
  replies_.erase(std::remove_if(replies_.begin(), replies_.end(),
                                [rank](const reply& r) { return r.rank == rank; }),
                 replies_.end());
}

void net_exchange::progress_st() noexcept {
  for (auto& [from, m] : in_)
    if (m.is_due) settle(from, m);
  // One that the network refuses holds back no other: that may be to another rank.
  replies_.erase(std::remove_if(replies_.begin(), replies_.end(),
                                [this](const reply& r) { return !error_t(post(r)).is_retry(); }),
                 replies_.end());
}

errorcode_t net_exchange::post(const reply& r) noexcept {
  header h;
  h.kind = header::REPLY;
  h.op = static_cast<std::uint32_t>(r.why);
  h.to_qpn = r.to_qpn;
  h.imm = static_cast<std::uint32_t>(r.old >> 32);
  h.length = static_cast<std::uint32_t>(r.old);
  h.ticket = r.ticket;
  h = h.in_order_of_wire();
  return to_.send_inline(r.rank, 0, &h, sizeof(h), nullptr, 0);
}

}  // namespace lci::device
