#include "lci/device/net_world.hpp"

#include <algorithm>
#include <cstring>

namespace lci::device {
namespace {

using wqe::opcode;
using wqe::syndrome;

constexpr std::uint32_t FIRST_KEY = 0x200;  // so that 0 and INVALID_LKEY name nothing

}  // namespace

net_world::net_world(net::endpoint& to, const peer_queue& peer, std::size_t max_rma,
                     const net_fate& fate, net_exchange* exchange)
    : to_(to), peer_(peer), max_rma_(max_rma), fate_(fate), exchange_(exchange) {}

net_world::~net_world() {
  if (exchange_ != nullptr) exchange_->forget(out_);
}

std::uint32_t net_world::add(const peer_memory& what) {
  peers_.push_back(what);
  return FIRST_KEY + static_cast<std::uint32_t>(peers_.size() - 1);
}

const peer_memory* net_world::find(remote_place place, std::uint64_t length,
                                   unsigned wanted) const noexcept {
  const std::size_t slot = std::size_t{place.key} - FIRST_KEY;
  if (slot >= peers_.size()) return nullptr;
  const peer_memory& p = peers_[slot];
  const bool is_allowed = (p.allowed & wanted) == wanted;
  return is_allowed && is_inside(place.address, length, p.base, p.length) ? &p : nullptr;
}

answer net_world::begin(verb v, unsigned wanted, const local_data& data,
                        remote_place place) noexcept {
  data_ = {};
  piece_ = done_of_piece_ = 0;
  posted_ = 0;
  is_broken_ = false;
  // edge net_world.fate, other side in the device's sink: counts of earlier requests.
  completed_before_ = fate_.completed->load(std::memory_order_acquire);
  failed_before_ = fate_.failed->load(std::memory_order_acquire);
  if (data.length != 0) {
    const peer_memory* const peer = find(place, data.length, wanted);
    if (peer == nullptr) return failed(syndrome::remote_access);
    verb_ = v;
    data_ = data;
    name_ = peer->name;
    offset_ = place.address - peer->base;
  }
  return poll();
}

answer net_world::poll() noexcept {
  if (is_saying_) return poll_message();
  const answer a = poll_data();
  if (a.what != outcome::done || !notifies_) return a;
  // The data is at the peer: now it may be told.
  notifies_ = false;
  own_piece_ = {reinterpret_cast<std::byte*>(&said_length_), sizeof(said_length_)};
  return say(opcode::rdma_write_imm, {&own_piece_, 1, sizeof(said_length_)}, out_.imm,
             out_.solicited);
}

answer net_world::poll_data() noexcept {
  while (!is_broken_ && piece_ < data_.count) {
    const local_piece& p = data_.pieces[piece_];
    net::net_op op;
    op.rank = peer_.rank;
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

answer net_world::say(opcode op, const local_data& data, std::uint32_t imm,
                      bool solicited) noexcept {
  out_.rank = peer_.rank;
  out_.op = op;
  out_.solicited = solicited;
  out_.to_qpn = peer_.peer_qpn;
  out_.from_qpn = peer_.own_qpn;
  out_.imm = imm;
  out_.data = data;
  is_saying_ = true;
  exchange_->begin(out_);
  return poll_message();
}

answer net_world::poll_message() noexcept {
  exchange_->post(out_);
  if (!out_.is_answered) return {outcome::posted, {}};
  is_saying_ = false;
  if (out_.why != syndrome::none) return failed(out_.why);
  const auto four = static_cast<std::uint32_t>(out_.old);
  if (old_ != nullptr && old_size_ == 4) std::memcpy(old_, &four, 4);
  if (old_ != nullptr && old_size_ == 8) std::memcpy(old_, &out_.old, 8);
  return {};
}

answer net_world::put(opcode op, const local_data& from, remote_place to, std::uint32_t imm,
                      bool solicited) noexcept {
  notifies_ = op == opcode::rdma_write_imm;
  if (notifies_ && exchange_ == nullptr) return failed(syndrome::local_qp_operation);
  old_ = nullptr;
  out_.imm = imm;
  out_.solicited = solicited;
  said_length_ = wqe::be32(static_cast<std::uint32_t>(from.length));
  return begin(&net::endpoint::put, REMOTE_WRITE, from, to);
}

answer net_world::get(remote_place from, const local_data& to) noexcept {
  notifies_ = false;
  return begin(&net::endpoint::get, REMOTE_READ, to, from);
}

answer net_world::send(opcode op, const local_data& from, std::uint32_t imm,
                       bool solicited) noexcept {
  if (exchange_ == nullptr) return failed(syndrome::local_qp_operation);
  notifies_ = false;
  old_ = nullptr;
  return say(op, from, imm, solicited);
}

answer net_world::atomic(opcode op, const wqe::atomic_operands& with, remote_place at,
                         std::byte* old) noexcept {
  if (exchange_ == nullptr) return failed(syndrome::local_qp_operation);
  const peer_memory* const peer = find(at, with.size, REMOTE_ATOMIC);
  if (peer == nullptr) return failed(syndrome::remote_access);
  using wqe::be32;
  using wqe::be64;
  notifies_ = false;
  said_atomic_ = {be64(at.address),     be64(with.swap_add),     be64(with.compare),
                  be64(with.swap_mask), be64(with.compare_mask), be32(peer->key_there),
                  be32(with.size)};
  old_ = old;
  old_size_ = with.size;
  own_piece_ = {reinterpret_cast<std::byte*>(&said_atomic_), sizeof(said_atomic_)};
  return say(op, {&own_piece_, 1, sizeof(said_atomic_)}, 0, false);
}

}  // namespace lci::device
