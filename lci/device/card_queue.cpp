#include "lci/device/card_queue.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lci/wqe/progress.hpp"

namespace lci::device {
namespace {

using wqe::octoword;
using wqe::opcode;
using wqe::syndrome;

}  // namespace

card_queue::card_queue(const card_queue_options& options, key_table& keys, world& beyond)
    : options_(options), keys_(keys), beyond_(beyond), cq_(options.cq), next_(options.first) {}

// Up to which block there are requests. edge wqe.requests, other side in ring_doorbell() of
// lci/wqe.
std::uint64_t card_queue::told() const noexcept {
  const wqe::doorbell& bell = options_.bell;
  if (bell.form == wqe::doorbell_form::mailbox) {
    const std::uint64_t said = wqe::word_at<std::uint64_t>(static_cast<std::uint64_t*>(bell.target))
                                   .load(std::memory_order_acquire);
    // A program may write anything there: a card believes no more than a ring.
    return said <= next_ ? next_ : std::min(said, next_ + options_.ring.blocks);
  }
  const std::uint32_t record = wqe::be32(
      wqe::word_at<std::uint32_t>(bell.record + wqe::SEND_RECORD).load(std::memory_order_acquire));
  const std::uint64_t said = wqe::widened(next_, static_cast<std::uint16_t>(record));
  return std::min(said, next_ + options_.ring.blocks);
}

std::size_t card_queue::progress_st() noexcept {
  std::size_t ended = 0;
  const std::uint64_t until = told();
  while ((next_ < until || is_posted_) && step(until)) ++ended;
  return ended;
}

// One request. False: it cannot end now.
bool card_queue::step(std::uint64_t told) noexcept {
  answer a;
  if (is_posted_) {
    a = beyond_.poll();
  } else {
    if (cq_.is_full()) return false;
    const std::uint64_t available = told - next_;
    if (!begin(available)) {
      a = failed(found_);
    } else {
      a = execute_with_signal(available);
      if (joined_ == 0) a = execute();
    }
  }
  is_posted_ = a.what == outcome::posted;
  if (is_posted_ || a.what == outcome::retry) return false;
  finish(a.what == outcome::failed ? a.why : syndrome::none);
  if (const std::uint64_t joined = std::exchange(joined_, 0); joined != 0 && !has_failed_) {
    static_cast<request_head&>(request_) = signal_;
    blocks_ = joined;
    finish(syndrome::none);
  }
  return true;
}

// Copies and reads the next request. False: it is not to be done, `found_` says why. Of bytes whose
// length cannot be believed one block is passed over.
bool card_queue::begin(std::uint64_t available) noexcept {
  octoword copy[wqe::MAX_OCTOWORDS];
  copy[0] = *octoword_at(options_.ring, next_, 0);
  const std::uint32_t octowords = octowords_in(copy[0]);
  blocks_ = wqe::blocks_of(octowords);
  if (octowords == 0 || blocks_ > available) {
    request_.restart();
    request_.op = static_cast<opcode>(wqe::be32(copy[0].word[0]) & 0xff);
    blocks_ = 1;
    found_ = has_failed_ ? syndrome::flushed : syndrome::local_qp_operation;
    return false;
  }
  for (std::uint32_t k = 1; k < octowords; ++k) copy[k] = *octoword_at(options_.ring, next_, k);
  found_ = parse(copy, octowords, next_, options_.qpn, options_.max_message, &request_);
  if (has_failed_) found_ = syndrome::flushed;
  return found_ == syndrome::none;
}

// The own side's keys: all of them, before anything is done.
syndrome card_queue::resolve_local() noexcept {
  const bool is_written = request_.op == opcode::rdma_read || is_atomic(request_.op);
  for (std::uint32_t i = 0; i < request_.piece_count; ++i) {
    const piece& p = request_.pieces[i];
    std::byte* const at = keys_.resolve(p.key, p.address, p.length, is_written ? WRITE : READ);
    if (at == nullptr) return syndrome::local_protection;
    pieces_[i] = {at, p.length, p.key};
  }
  return syndrome::none;
}

// A short put, and a signal that comes behind it. joined_ stays 0: they are no such pair, or the
// world has no way for it.
answer card_queue::execute_with_signal(std::uint64_t available) noexcept {
  constexpr answer NO_WAY{outcome::retry, syndrome::none};
  if (!options_.joins_signals || request_.op != opcode::rdma_write || !request_.is_inline ||
      request_.signaled || blocks_ >= available)
    return NO_WAY;
  const std::uint64_t index = next_ + blocks_;
  octoword copy[wqe::MAX_OCTOWORDS];
  copy[0] = *octoword_at(options_.ring, index, 0);
  const std::uint32_t octowords = octowords_in(copy[0]);
  const std::uint64_t blocks = wqe::blocks_of(octowords);
  if (octowords == 0 || blocks > available - blocks_) return NO_WAY;
  for (std::uint32_t k = 1; k < octowords; ++k) copy[k] = *octoword_at(options_.ring, index, k);
  std::uint64_t value = 0;
  if (parse(copy, octowords, index, options_.qpn, options_.max_message, &signal_) !=
          syndrome::none ||
      signal_.op != opcode::rdma_write || !signal_.is_inline ||
      signal_.inline_length != sizeof(value))
    return NO_WAY;
  std::memcpy(&value, signal_.inline_data, sizeof(value));
  pieces_[0] = {reinterpret_cast<std::byte*>(request_.inline_data), request_.inline_length};
  const answer a =
      beyond_.put_signal({pieces_, 1, request_.length}, {request_.raddr, request_.rkey},
                         {signal_.raddr, signal_.rkey}, value);
  if (a.what != outcome::retry) joined_ = blocks;
  return a;
}

answer card_queue::execute() noexcept {
  if (const syndrome why = resolve_local(); why != syndrome::none) return failed(why);
  local_data data{pieces_, request_.piece_count, request_.length};
  if (request_.is_inline) {
    pieces_[0] = {reinterpret_cast<std::byte*>(request_.inline_data), request_.inline_length};
    data.count = 1;
  }
  const remote_place place{request_.raddr, request_.rkey};
  beyond_.expect_completion(request_.signaled);
  if (request_.op == opcode::rdma_write || request_.op == opcode::rdma_write_imm)
    return beyond_.put(request_.op, data, place, request_.imm, request_.solicited);
  if (request_.op == opcode::rdma_read) return beyond_.get(place, data);
  if (takes_inline(request_.op))
    return beyond_.send(request_.op, data, request_.imm, request_.solicited);
  if (is_atomic(request_.op))
    return beyond_.atomic(request_.op, request_.atomic, place, pieces_[0].at);
  return beyond_.flush();  // a NOP, or a DUMP, which only reads
}

void card_queue::finish(syndrome why) noexcept {
  if (why != syndrome::none && !has_failed_) {
    has_failed_ = true;
    error_ = why;
    failed_op_ = request_.op;
  }
  if (request_.signaled || why != syndrome::none) {
    wqe::completion c;
    c.kind = why == syndrome::none ? wqe::cqe_opcode::request : wqe::cqe_opcode::request_error;
    c.qpn = options_.qpn;
    c.wqe_counter = static_cast<std::uint16_t>(next_);
    c.send_opcode = static_cast<std::uint8_t>(request_.op);
    c.byte_count = static_cast<std::uint32_t>(request_.length);
    c.error = why;
    cq_.write(c);
  }
  next_ += blocks_;
  // edge wqe.read_index, other side in the program: blocks before it were read.
  if (options_.read_index != nullptr)
    wqe::word_at<std::uint64_t>(options_.read_index).store(next_, std::memory_order_release);
}

}  // namespace lci::device
