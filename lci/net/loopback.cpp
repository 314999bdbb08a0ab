#include "lci/net/loopback.hpp"

#include <cstring>

namespace lci::net {

loopback::~loopback() {
  for (; first_ != end_; ++first_)
    if (const item& one = at_locked(first_); one.packet != nullptr)
      mem::pool_of(*one.packet).put(one.packet);
}

errorcode_t loopback::push(const item& one) noexcept {
  const std::lock_guard lock(lock_);
  if (end_ - first_ >= DEPTH) return errorcode_t::retry_nomem;
  at_locked(end_++) = one;
  // edge loopback.news: the entry before its count; partner is the acquire load in poll().
  waiting_.fetch_add(1, std::memory_order_release);
  return errorcode_t::done;
}

errorcode_t loopback::send(std::uint32_t imm, const void* head, std::size_t head_size,
                           const void* payload, std::size_t size) noexcept {
  mem::packet* const packet = packets_.get();
  if (packet == nullptr) return errorcode_t::retry_nomem;
  if (head_size != 0) std::memcpy(packet->payload(), head, head_size);
  if (size != 0) std::memcpy(packet->payload() + head_size, payload, size);
  const errorcode_t code = push({what::message, imm, head_size + size, packet, nullptr});
  if (code != errorcode_t::done) packets_.put(packet);
  return code;
}

errorcode_t loopback::send(const net_op& op) noexcept {
  if (op.packet == nullptr) return send(op.imm, nullptr, 0, op.buffer, op.size);
  return push({what::message, op.imm, op.size, op.packet, nullptr});
}

void* loopback::find(const net_op& op) const noexcept {
  return regions_.find({op.remote.slot, op.remote.generation}, op.remote_offset, op.size);
}

errorcode_t loopback::refuse(const net_op& op) noexcept {
  const errorcode_t code = push({what::error, 0, 0, nullptr, op.context});
  return code == errorcode_t::done ? errorcode_t::posted : code;
}

errorcode_t loopback::put(const net_op& op, bool has_imm) noexcept {
  void* const there = find(op);
  if (there == nullptr) return refuse(op);
  // The place in the queue first: a put that answers retry has written nothing.
  const std::lock_guard lock(lock_);
  if (has_imm) {
    if (end_ - first_ >= DEPTH) return errorcode_t::retry_nomem;
    at_locked(end_++) = {what::immediate, op.imm, 0, nullptr, nullptr};
  }
  if (op.size != 0) std::memmove(there, op.buffer, op.size);
  // edge loopback.news: the data before its news; partner is poll().
  if (has_imm) waiting_.fetch_add(1, std::memory_order_release);
  return errorcode_t::done;
}

errorcode_t loopback::get(const net_op& op) noexcept {
  const void* const there = find(op);
  if (there == nullptr) return refuse(op);
  if (op.size != 0) std::memmove(op.buffer, there, op.size);
  return errorcode_t::done;
}

void loopback::forget_failures() noexcept {
  const std::lock_guard lock(lock_);
  for (std::size_t i = first_; i != end_; ++i)
    if (item& one = at_locked(i); one.kind == what::error) one.kind = what::forgotten_error;
}

std::size_t loopback::poll(sink& to, std::size_t max) noexcept {
  std::size_t n = 0;
  // edge loopback.news: partners are push() and put().
  while (n < max && waiting_.load(std::memory_order_acquire) != 0) {
    item one;
    {
      const std::lock_guard lock(lock_);
      if (first_ == end_) break;  // an outer poll is looking at the last one
      one = at_locked(first_++);
    }
    // Before the sink runs, which may wait until nothing is under way here. But the poster of an
    // operation has not been told before.
    const bool is_told = one.kind == what::error;
    if (!is_told) waiting_.fetch_sub(1, std::memory_order_relaxed);
    if (one.kind == what::immediate) {
      to.on_immediate(rank_, one.imm);
    } else if (one.kind == what::error) {
      to.on_error(rank_, one.context, "the remote key is unknown, or the range is outside");
    } else if (one.kind == what::message) {
      const verdict v =
          to.on_message({rank_, one.imm, one.packet->payload(), one.size, one.packet});
      if (v == verdict::deferred) {
        const std::lock_guard lock(lock_);
        at_locked(--first_) = one;
        waiting_.fetch_add(1, std::memory_order_relaxed);
        break;
      }
      if (v == verdict::taken) mem::pool_of(*one.packet).put(one.packet);
    }
    // edge loopback.told: the sink was told of the failure; partner is is_empty().
    if (is_told) waiting_.fetch_sub(1, std::memory_order_release);
    ++n;
  }
  return n;
}

}  // namespace lci::net
