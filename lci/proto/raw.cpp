#include "lci/proto/raw.hpp"

#include <algorithm>
#include <cstring>

namespace lci::proto {

void raw_net::post_recv(void* buffer, std::size_t size, void* user_context) {
  const std::lock_guard lock(mutex_);
  receives_.push_back({buffer, size, user_context});
}

std::size_t raw_net::poll(std::size_t max, net_status_t* out) {
  {
    const std::lock_guard lock(mutex_);
    if (ready_.size() >= max) max = std::min(max, ready_.size());
  }
  device_.poll(*this, max);
  const std::lock_guard lock(mutex_);
  const std::size_t n = std::min(max, ready_.size());
  for (std::size_t i = 0; i < n; ++i) {
    if (out != nullptr) out[i] = ready_.front();
    ready_.pop_front();
  }
  return n;
}

raw_net::record* raw_net::make_record(net_opcode_t opcode, int rank, void* user_context) {
  record* r = records_.get();
  r->entry = net_status_t();
  r->entry.opcode = opcode;
  r->entry.rank = rank;
  r->entry.user_context = user_context;
  r->packet = nullptr;
  return r;
}

void raw_net::complete(record* r) {
  push(r->entry);
  drop(r);
}

void raw_net::drop(record* r) {
  if (r->packet != nullptr) mem::release_packet(arena_, r->packet);
  r->key = network_key();
  records_.put(r);
}

void raw_net::push(const net_status_t& entry) {
  const std::lock_guard lock(mutex_);
  ready_.push_back(entry);
}

net::verdict raw_net::on_message(const net::arrival& message) noexcept {
  receive to;
  {
    const std::lock_guard lock(mutex_);
    if (receives_.empty())
      return net::verdict::deferred;  // as a network without posted receives would
    to = receives_.front();
    receives_.pop_front();
  }
  net_status_t entry;
  // A message that does not fit is an error of the receive, as on verbs; nothing is written past
  // its end.
  entry.opcode = message.size <= to.size ? net_opcode_t::RECV : net_opcode_t::ERROR;
  entry.rank = message.rank;
  entry.user_context = to.user_context;
  entry.length = message.size;
  entry.imm_data = message.imm;
  if (message.size <= to.size && message.size != 0)
    std::memcpy(to.buffer, message.data, message.size);
  push(entry);
  return net::verdict::taken;
}

void raw_net::on_immediate(int rank, std::uint32_t imm) noexcept {
  net_status_t entry;
  entry.opcode = net_opcode_t::REMOTE_WRITE;
  entry.rank = rank;
  entry.imm_data = imm;
  push(entry);
}

void raw_net::on_complete(void* context) noexcept { complete(static_cast<record*>(context)); }

void raw_net::on_error(int rank, void* context, std::string_view) noexcept {
  net_status_t entry;
  entry.opcode = net_opcode_t::ERROR;
  entry.rank = rank;
  if (auto* r = static_cast<record*>(context)) {
    entry.user_context = r->entry.user_context;
    drop(r);
  }
  push(entry);
}

void raw_net::on_peer_gone(int rank, bool orderly, std::string_view reason) noexcept {
  if (!orderly) on_error(rank, nullptr, reason);
}

}  // namespace lci::proto
