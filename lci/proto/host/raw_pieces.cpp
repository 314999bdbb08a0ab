// Messages of the network's own calls that are too long for one send: cut here, and put together at
// the receiver in the buffer that it has posted. Each piece is as long as a send can be, the last
// one with zeros behind its bytes, so that it needs no mark among the program's immediate data.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "lci/proto/host/raw.hpp"

namespace lci::proto {
namespace {

// In front of each piece.
struct piece_head {
  std::uint64_t id = 0;  // of the message, among those of the sender's device
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
};

}  // namespace

bool raw_net::take_carrier(std::size_t size) noexcept {
  const std::lock_guard lock(mutex_);
  if (is_carrier_out_) return false;
  if (carrier_size_ < size) {
    carrier_.reset(new (std::nothrow) std::byte[size]);
    carrier_size_ = carrier_ != nullptr ? size : 0;
  }
  return is_carrier_out_ = carrier_ != nullptr;
}

void raw_net::give_back_carrier() noexcept {
  const std::lock_guard lock(mutex_);
  is_carrier_out_ = false;
}

// A copy goes, which the peer's receives have room for.
errorcode_t raw_net::send_piece_locked(record& r) noexcept {
  const int rank = r.entry.rank;
  const std::size_t all = longest(rank);
  if (engine_.watch.has_ended(rank)) return errorcode_t::fatal;
  if (!take_carrier(all)) return errorcode_t::retry_nomem;
  const piece_head head{r.whole.id, r.whole.size, r.whole.size - r.whole.left};
  const std::size_t n = std::min(r.whole.left, all - sizeof(head));
  std::byte* const bytes = carrier_.get() + sizeof(head);
  std::memcpy(carrier_.get(), &head, sizeof(head));
  std::memcpy(bytes, r.whole.at + head.offset, n);
  std::memset(bytes + n, 0, all - sizeof(head) - n);
  net::net_op op;
  op.rank = rank;
  op.imm = r.whole.imm;
  op.buffer = carrier_.get();
  op.size = all;
  op.context = &carrier_;
  const errorcode_t code = r.whole.by->send(op);
  if (code != errorcode_t::posted) give_back_carrier();
  if (code == errorcode_t::done || code == errorcode_t::posted) r.whole.left -= n;
  return code;
}

errorcode_t raw_net::send_in_pieces(net::endpoint& by, const net::net_op& op, record* r) noexcept {
  const std::lock_guard lock(sends_);
  r->whole = {};
  r->whole.by = &by;
  r->whole.at = static_cast<std::byte*>(op.buffer);
  r->whole.size = r->whole.left = op.size;
  r->whole.id = ++last_id_;
  r->whole.imm = op.imm;
  const errorcode_t code = send_piece_locked(*r);
  if (code != errorcode_t::done && code != errorcode_t::posted) return code;
  record** end = &leaving_;
  while (*end != nullptr) end = &(*end)->pool_next;
  r->pool_next = nullptr;
  *end = r;
  return errorcode_t::posted;
}

bool raw_net::has_pieces_for(int rank) noexcept {
  const std::lock_guard lock(sends_);
  const record* one = leaving_;
  while (one != nullptr && one->entry.rank != rank) one = one->pool_next;
  return one != nullptr;
}

// As far as the network takes it. Another thread that is here does the same.
void raw_net::send_rest() noexcept {
  const std::unique_lock lock(sends_, std::try_to_lock);
  if (!lock) return;
  for (record** at = &leaving_; *at != nullptr;) {
    record* const r = *at;
    errorcode_t code = errorcode_t::done;
    while (r->whole.left != 0 && (code == errorcode_t::done || code == errorcode_t::posted))
      code = send_piece_locked(*r);
    if (r->whole.left != 0 && code != errorcode_t::fatal) {
      at = &r->pool_next;
      continue;
    }
    *at = r->pool_next;
    if (r->whole.left == 0)
      complete(r);
    else
      fail(r);
  }
}

// The first piece that arrives takes the receive. Null: there is none, or no memory.
raw_net::record* raw_net::begin_whole_locked(int rank, std::size_t size,
                                             std::uint64_t id) noexcept {
  record* const r = receives_.empty() ? nullptr : records_.try_get();
  if (r == nullptr) return nullptr;
  const receive into = receives_.front();
  receives_.pop_front();
  out_.fetch_add(1, std::memory_order_relaxed);
  r->entry = net_status_t();
  r->entry.opcode = size <= into.size ? net_opcode_t::RECV : net_opcode_t::ERROR;
  r->entry.rank = rank;
  r->entry.user_context = into.user_context;
  r->entry.length = size;
  r->packet = nullptr;
  r->whole = {};
  r->whole.at = static_cast<std::byte*>(into.buffer);
  r->whole.room = into.size;
  r->whole.size = r->whole.left = size;
  r->whole.id = id;
  r->pool_next = std::exchange(arriving_, r);
  return r;
}

// Pieces that different threads of the peer have sent may overtake each other.
net::verdict raw_net::on_piece(const net::arrival& piece) noexcept {
  piece_head head;
  if (piece.size < sizeof(head)) return net::verdict::taken;
  std::memcpy(&head, piece.data, sizeof(head));
  // No sender cuts like that.
  if (head.size < piece.size || head.offset >= head.size) return net::verdict::taken;
  const std::lock_guard lock(mutex_);
  record** at = &arriving_;
  while (*at != nullptr && ((*at)->entry.rank != piece.rank || (*at)->whole.id != head.id))
    at = &(*at)->pool_next;
  if (*at == nullptr) {
    if (begin_whole_locked(piece.rank, head.size, head.id) == nullptr)
      return net::verdict::deferred;
    at = &arriving_;
  }
  record* const r = *at;
  if (head.size != r->whole.size) return net::verdict::taken;
  const std::size_t n = std::min<std::size_t>(piece.size - sizeof(head), head.size - head.offset);
  // As with a whole message, nothing is written into a receive that is too short.
  if (head.size <= r->whole.room)
    std::memcpy(r->whole.at + head.offset, piece.data + sizeof(head), n);
  r->whole.left -= std::min(n, r->whole.left);
  r->entry.imm_data = piece.imm;
  if (r->whole.left != 0) return net::verdict::taken;
  *at = r->pool_next;
  push_locked(r);
  return net::verdict::taken;
}

// What is missing does not come any more.
void raw_net::fail_pieces_from(int rank) noexcept {
  record* ended = nullptr;
  {
    const std::lock_guard lock(mutex_);
    for (record** at = &arriving_; *at != nullptr;) {
      record* const r = *at;
      if (r->entry.rank != rank) {
        at = &r->pool_next;
        continue;
      }
      *at = r->pool_next;
      r->pool_next = std::exchange(ended, r);
    }
  }
  while (ended != nullptr) fail(std::exchange(ended, ended->pool_next));
}

}  // namespace lci::proto
