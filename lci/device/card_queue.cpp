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
    : options_(options),
      keys_(keys),
      beyond_(beyond),
      cq_(options.cq),
      window_(std::min(options.most_beside, beyond.most_beside())),
      next_(options.first) {}

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
  for (;;) {
    const progress made = step(until);
    if (made == progress::none) return ended;
    if (made == progress::ended) ++ended;
  }
}

// One request begins, or ends. none: nothing can now.
card_queue::progress card_queue::step(std::uint64_t told) noexcept {
  if (is_posted_) return end_alone(beyond_.poll()) ? progress::ended : progress::none;
  if (window_.count() != 0 && end_oldest()) return progress::ended;
  const std::uint64_t index = next_ + window_.blocks();
  if (index >= told || !cq_.has_room_beside(window_.count())) return progress::none;
  if (!is_looked_at_ || index_ != index) look_at(index, told - index);
  if (found_ == syndrome::none && window_.count() == 0) {
    const answer a = execute_with_signal(told - index);
    if (joined_ != 0) return end_alone(a) ? progress::ended : progress::none;
  }
  if (found_ == syndrome::none && window::may_take(request_) && window_.has_room_for(request_)) {
    const answer a = start_beside();
    if (a.what != outcome::retry) {
      is_looked_at_ = false;
      if (a.what != outcome::posted && window_.count() == 0)
        return end_alone(a) ? progress::ended : progress::none;
      window_.push(a);
      return progress::begun;
    }
  }
  if (window_.count() != 0) return progress::none;
  return end_alone(found_ == syndrome::none ? execute() : failed(found_)) ? progress::ended
                                                                          : progress::none;
}

// Of those that are under way beside each other. False: it is not done yet.
bool card_queue::end_oldest() noexcept {
  const window::entry& oldest = window_.oldest();
  answer a = oldest.said;
  if (a.what == outcome::posted) a = beyond_.poll_beside(window_.oldest_number());
  if (a.what == outcome::posted || a.what == outcome::retry) return false;
  const syndrome why = has_failed_ ? syndrome::flushed : a.why;
  finish(oldest.head, oldest.blocks,
         a.what == outcome::failed || has_failed_ ? why : syndrome::none);
  window_.pop();
  return true;
}

// Of a request that nothing is beside. False: it cannot end now.
bool card_queue::end_alone(answer a) noexcept {
  is_posted_ = a.what == outcome::posted;
  if (is_posted_ || a.what == outcome::retry) return false;
  is_looked_at_ = false;
  finish(request_, blocks_, a.what == outcome::failed ? a.why : syndrome::none);
  if (const std::uint64_t joined = std::exchange(joined_, 0); joined != 0)
    if (!has_failed_) finish(signal_, joined, syndrome::none);
  return true;
}

void card_queue::look_at(std::uint64_t index, std::uint64_t available) noexcept {
  index_ = index;
  is_looked_at_ = true;
  found_ = read(index, available);
}

// Copies and reads that request. Not none: it is not to be done. Of bytes whose length cannot be
// believed one block is passed over. Behind an error nothing is parsed: the world may still read
// the inline bytes of a request that was under way then.
syndrome card_queue::read(std::uint64_t index, std::uint64_t available) noexcept {
  octoword copy[wqe::MAX_OCTOWORDS];
  copy[0] = *octoword_at(options_.ring, index, 0);
  const std::uint32_t octowords = octowords_in(copy[0]);
  blocks_ = wqe::blocks_of(octowords);
  const bool is_sound = octowords != 0 && blocks_ <= available;
  if (!is_sound || has_failed_) {
    request_.restart();
    request_.op = static_cast<opcode>(wqe::be32(copy[0].word[0]) & 0xff);
    if (!is_sound) blocks_ = 1;
    return has_failed_ ? syndrome::flushed : syndrome::local_qp_operation;
  }
  for (std::uint32_t k = 1; k < octowords; ++k) copy[k] = *octoword_at(options_.ring, index, k);
  return parse(copy, octowords, index, options_.qpn, options_.max_message, &request_);
}

// The request that was looked at. retry: it has to go alone.
answer card_queue::start_beside() noexcept {
  if (resolve_local() != syndrome::none) return {outcome::retry, syndrome::none};
  const window::entry& e = window_.fill_next(request_, blocks_, pieces_[0]);
  const local_data data{&e.piece, 1, request_.length};
  const remote_place place{request_.raddr, request_.rkey};
  const std::uint32_t number = window_.next_number();
  return request_.op == opcode::rdma_read ? beyond_.get_beside(number, place, data)
                                          : beyond_.put_beside(number, data, place);
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

// A short put with nothing before it, and a signal that comes behind it. joined_ stays 0: they are
// no such pair, or the world has no way for it.
answer card_queue::execute_with_signal(std::uint64_t available) noexcept {
  constexpr answer NO_WAY{outcome::retry, syndrome::none};
  if (!options_.joins_signals || request_.op != opcode::rdma_write || !request_.is_inline ||
      request_.signaled || blocks_ >= available)
    return NO_WAY;
  const std::uint64_t index = index_ + blocks_;
  octoword copy[wqe::MAX_OCTOWORDS];
  copy[0] = *octoword_at(options_.ring, index, 0);
  // One without a fence is no signal, and may go beside others.
  if (fence_of(copy[0]) == wqe::fence_mode::none) return NO_WAY;
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

void card_queue::finish(const request_head& what, std::uint64_t blocks, syndrome why) noexcept {
  if (why != syndrome::none && !has_failed_) {
    has_failed_ = true;
    error_ = why;
    failed_op_ = what.op;
    is_looked_at_ = false;  // what comes is flushed
  }
  if (what.signaled || why != syndrome::none) {
    wqe::completion c;
    c.kind = why == syndrome::none ? wqe::cqe_opcode::request : wqe::cqe_opcode::request_error;
    c.qpn = options_.qpn;
    c.wqe_counter = static_cast<std::uint16_t>(next_);
    c.send_opcode = static_cast<std::uint8_t>(what.op);
    c.byte_count = static_cast<std::uint32_t>(what.length);
    c.error = why;
    cq_.write(c);
  }
  next_ += blocks;
  // edge wqe.read_index, other side in the program: blocks before it were read.
  if (options_.read_index != nullptr)
    wqe::word_at<std::uint64_t>(options_.read_index).store(next_, std::memory_order_release);
}

}  // namespace lci::device
