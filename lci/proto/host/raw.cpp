#include "lci/proto/host/raw.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace lci::proto {

void raw_net::post_recv(void* buffer, std::size_t size, void* user_context) {
  const std::lock_guard lock(mutex_);
  receives_.push_back({buffer, size, user_context});
}

raw_net::~raw_net() {
  while (record* const one = take_record()) drop(one);
  while (arriving_ != nullptr) drop(std::exchange(arriving_, arriving_->pool_next));
  while (leaving_ != nullptr) drop(std::exchange(leaving_, leaving_->pool_next));
}

std::size_t raw_net::poll(std::size_t max, net_status_t* out) {
  {
    const std::lock_guard lock(mutex_);
    if (ready_count_ >= max) max = std::min(max, ready_count_);
  }
  send_rest();
  engine_.device().poll(*this, max);
  std::size_t n = 0;
  for (; n < max; ++n) {
    record* const one = take_record();
    if (one == nullptr) break;
    if (out != nullptr) out[n] = one->entry;
    drop(one);
  }
  const std::lock_guard lock(mutex_);
  if (n == 0 && std::exchange(was_entry_lost_, false)) throw std::bad_alloc();
  return n;
}

raw_net::record* raw_net::make_record(net_opcode_t opcode, int rank, void* user_context) {
  record* r = records_.get();
  // Relaxed, here and below: only calls that have ended are of interest.
  out_.fetch_add(1, std::memory_order_relaxed);
  r->entry = net_status_t();
  r->entry.opcode = opcode;
  r->entry.rank = rank;
  r->entry.user_context = user_context;
  r->packet = nullptr;
  return r;
}

void raw_net::complete(record* r) noexcept {
  strip(r);
  push(r);
}

// What it held is given back.
void raw_net::strip(record* r) noexcept {
  if (r->packet != nullptr)
    mem::release_packet(engine_.shared.arena, std::exchange(r->packet, nullptr));
  r->key = network_key();
}

void raw_net::drop(record* r) noexcept {
  strip(r);
  records_.put(r);
  out_.fetch_sub(1, std::memory_order_relaxed);
}

bool raw_net::is_idle() noexcept {
  const std::lock_guard lock(mutex_);
  return receives_.empty() && !is_carrier_out_ && out_.load(std::memory_order_relaxed) == 0;
}

void raw_net::push(record* r) noexcept {
  const std::lock_guard lock(mutex_);
  push_locked(r);
}

void raw_net::push_locked(record* r) noexcept {
  r->pool_next = nullptr;
  *ready_end_ = r;
  ready_end_ = &r->pool_next;
  ++ready_count_;
}

raw_net::record* raw_net::take_record() noexcept {
  const std::lock_guard lock(mutex_);
  record* const one = ready_;
  if (one == nullptr) return nullptr;
  ready_ = one->pool_next;
  if (ready_ == nullptr) ready_end_ = &ready_;
  --ready_count_;
  return one;
}

// For what was not posted here. Null: no memory, which poll() tells.
raw_net::record* raw_net::record_for(net_opcode_t opcode, int rank) noexcept {
  try {
    return make_record(opcode, rank, nullptr);
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(mutex_);
    was_entry_lost_ = true;
    return nullptr;
  }
}

net::verdict raw_net::on_message(const net::arrival& message) noexcept {
  if (message.size == longest(message.rank)) return on_piece(message);
  record* const r = records_.try_get();
  if (r == nullptr) return net::verdict::deferred;
  receive into{};
  {
    const std::lock_guard lock(mutex_);
    if (receives_.empty()) {
      records_.put(r);
      return net::verdict::deferred;  // as a network without posted receives would
    }
    into = receives_.front();
    receives_.pop_front();
    out_.fetch_add(1, std::memory_order_relaxed);
  }
  // A message that does not fit is an error of the receive, as on verbs; nothing is written past
  // its end.
  r->entry = net_status_t();
  r->entry.opcode = message.size <= into.size ? net_opcode_t::RECV : net_opcode_t::ERROR;
  r->entry.rank = message.rank;
  r->entry.user_context = into.user_context;
  r->entry.length = message.size;
  r->entry.imm_data = message.imm;
  r->packet = nullptr;
  if (message.size <= into.size && message.size != 0)
    std::memcpy(into.buffer, message.data, message.size);
  push(r);
  return net::verdict::taken;
}

void raw_net::on_immediate(int rank, std::uint32_t imm) noexcept {
  record* const r = record_for(net_opcode_t::REMOTE_WRITE, rank);
  if (r == nullptr) return;
  r->entry.imm_data = imm;
  push(r);
}

void raw_net::on_complete(void* context) noexcept {
  if (context == &carrier_) return give_back_carrier();
  complete(static_cast<record*>(context));
}

// An ERROR entry instead of the one that it would have had.
void raw_net::fail(record* r) noexcept {
  strip(r);
  const net_status_t planned = std::exchange(r->entry, net_status_t());
  r->entry.opcode = net_opcode_t::ERROR;
  r->entry.rank = planned.rank;
  r->entry.user_context = planned.user_context;
  push(r);
}

void raw_net::on_error(int rank, void* context, std::string_view) noexcept {
  // What comes behind that piece is refused.
  if (context == &carrier_) return give_back_carrier();
  record* const r =
      context != nullptr ? static_cast<record*>(context) : record_for(net_opcode_t::ERROR, rank);
  if (r == nullptr) return;
  r->entry.rank = rank;
  fail(r);
}

void raw_net::on_peer_ended(int rank, bool orderly, std::string_view reason) noexcept {
  // As progress of the device would have noted it.
  engine_.watch.note_end(rank, orderly, reason);
  fail_pieces_from(rank);
  if (!orderly) on_error(rank, nullptr, reason);
}

}  // namespace lci::proto
