#include "lci/device/net_world.hpp"

#include <algorithm>

namespace lci::device {
namespace {

using wqe::opcode;
using wqe::syndrome;

constexpr std::uint32_t FIRST_KEY = 0x200;  // so that 0 and INVALID_LKEY are nobody's

}  // namespace

net_world::net_world(net::endpoint& to, int rank, std::size_t max_rma, const net_fate& fate)
    : to_(to), rank_(rank), max_rma_(max_rma), fate_(fate) {}

std::uint32_t net_world::add(const peer_memory& what) {
  peers_.push_back(what);
  return FIRST_KEY + static_cast<std::uint32_t>(peers_.size() - 1);
}

const peer_memory* net_world::find(remote_place place, std::uint64_t length,
                                   unsigned wanted) const noexcept {
  const std::size_t slot = std::size_t{place.key} - FIRST_KEY;
  if (slot >= peers_.size()) return nullptr;
  const peer_memory& p = peers_[slot];
  // In this order no sum runs over.
  if ((p.allowed & wanted) != wanted || place.address < p.base ||
      place.address - p.base > p.length || length > p.length - (place.address - p.base))
    return nullptr;
  return &p;
}

answer net_world::begin(verb v, unsigned wanted, const local_data& data,
                        remote_place place) noexcept {
  if (data.length == 0) return {};
  const peer_memory* const peer = find(place, data.length, wanted);
  if (peer == nullptr) return failed(syndrome::remote_access);
  verb_ = v;
  data_ = data;
  name_ = peer->name;
  offset_ = place.address - peer->base;
  piece_ = done_of_piece_ = 0;
  posted_ = 0;
  is_broken_ = false;
  // edge net_world.fate, other side in the device's sink: counts of earlier requests.
  completed_before_ = fate_.completed->load(std::memory_order_acquire);
  failed_before_ = fate_.failed->load(std::memory_order_acquire);
  return poll();
}

answer net_world::poll() noexcept {
  while (!is_broken_ && piece_ < data_.count) {
    const local_piece& p = data_.pieces[piece_];
    net::net_op op;
    op.rank = rank_;
    op.buffer = p.at + done_of_piece_;
    op.size = std::min<std::size_t>(p.length - done_of_piece_, max_rma_);
    op.remote = name_;
    op.remote_offset = offset_;
    op.context = fate_.context;
    const errorcode_t code = (to_.*verb_)(op);
    if (code == errorcode_t::posted) {
      ++posted_;
    } else if (code == errorcode_t::fatal) {
      is_broken_ = true;  // what is posted ends first
      break;
    } else if (code != errorcode_t::done) {
      return {outcome::posted, {}};  // not now; the next poll() begins here
    }
    offset_ += op.size;
    done_of_piece_ += static_cast<std::uint32_t>(op.size);
    if (done_of_piece_ == p.length) ++piece_, done_of_piece_ = 0;
  }
  // edge net_world.fate, other side in the device's sink: data is there, buffers are free.
  const int completed = fate_.completed->load(std::memory_order_acquire) - completed_before_;
  const int lost = fate_.failed->load(std::memory_order_acquire) - failed_before_;
  if (completed + lost < posted_) return {outcome::posted, {}};
  if (is_broken_) return failed(syndrome::retry_exceeded);
  return lost == 0 ? answer{} : failed(syndrome::remote_operation);
}

answer net_world::put(opcode op, const local_data& from, remote_place to, std::uint32_t,
                      bool) noexcept {
  if (op != opcode::rdma_write) return failed(syndrome::local_qp_operation);
  return begin(&net::endpoint::put, REMOTE_WRITE, from, to);
}

answer net_world::get(remote_place from, const local_data& to) noexcept {
  return begin(&net::endpoint::get, REMOTE_READ, to, from);
}

answer net_world::send(opcode, const local_data&, std::uint32_t, bool) noexcept {
  return failed(syndrome::local_qp_operation);
}

answer net_world::atomic(opcode, const wqe::atomic_operands&, remote_place, std::byte*) noexcept {
  return failed(syndrome::local_qp_operation);
}

}  // namespace lci::device
