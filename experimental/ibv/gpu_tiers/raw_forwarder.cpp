#include "experimental/ibv/gpu_tiers/raw_forwarder.hpp"

#include <algorithm>
#include <cerrno>

namespace lci::ibv {

using wqe::be32;
using wqe::syndrome;

syndrome syndrome_of(ibv_wc_status status) noexcept {
  for (const syndrome one :
       {syndrome::none, syndrome::local_length, syndrome::local_qp_operation,
        syndrome::local_protection, syndrome::flushed, syndrome::window_bind,
        syndrome::bad_response, syndrome::local_access, syndrome::remote_invalid_request,
        syndrome::remote_access, syndrome::remote_operation, syndrome::retry_exceeded,
        syndrome::rnr_retry_exceeded, syndrome::remote_aborted})
    if (wqe::wc_status_of(one) == static_cast<int>(status)) return one;
  return static_cast<syndrome>(0xff);  // a general error
}

// The request at next_, in one piece. False: it is none that this queue may carry.
bool raw_forwarder::copy_next(std::uint64_t until) noexcept {
  copy_[0] = *wqe::octoword_at(queue_.ring, next_, 0);
  const std::uint32_t numbers = be32(copy_[0].word[1]);
  const std::uint32_t octowords = numbers & wqe::MAX_OCTOWORDS;
  blocks_ = wqe::blocks_of(octowords);
  if (octowords == 0 || blocks_ > until - next_ || numbers >> 8 != queue_.qpn) return false;
  for (std::uint32_t k = 1; k < octowords; ++k) copy_[k] = *wqe::octoword_at(queue_.ring, next_, k);
  return true;
}

// edge wqe.requests, other side in ring_doorbell() of lci/wqe.
std::size_t raw_forwarder::forward() noexcept {
  const std::uint64_t said =
      wqe::word_at<std::uint64_t>(static_cast<std::uint64_t*>(queue_.bell.target))
          .load(std::memory_order_acquire);
  const std::uint64_t until = std::min(said, next_ + queue_.ring.blocks);
  if (said <= next_ || has_refused_) return 0;
  const std::uint64_t first = next_;
  std::size_t count = 0;
  bool is_good = copy_next(until);
  if (is_good) ibv_wr_start(way_.qp);
  while (is_good) {
    way_.qp->wr_id = next_;
    way_.qp->wr_flags = 0;  // those in the request count
    way_.direct->wr_raw_wqe(way_.direct, copy_);
    ++count;
    next_ += blocks_;
    if (next_ >= until) break;
    is_good = copy_next(until);
  }
  if (count == 0) {
    refuse();
    return 0;
  }
  const int rc = ibv_wr_complete(way_.qp);
  if (rc == 0) return count;
  next_ = first;  // none of them was taken
  if (rc != ENOMEM) refuse();
  return 0;
}

// The request at next_ ends as a card ends what it cannot do, and with it the queue.
void raw_forwarder::refuse() noexcept {
  if (cq_.is_full()) return;
  has_refused_ = true;
  wqe::completion c;
  c.kind = wqe::cqe_opcode::request_error;
  c.error = syndrome::local_qp_operation;
  c.qpn = queue_.qpn;
  c.wqe_counter = static_cast<std::uint16_t>(next_);
  c.send_opcode = static_cast<std::uint8_t>(be32(wqe::octoword_at(queue_.ring, next_, 0)->word[0]));
  cq_.write(c);
}

std::size_t raw_forwarder::take_completions() noexcept {
  if (cq_.is_full()) return 0;
  ibv_poll_cq_attr nothing{};
  if (ibv_start_poll(way_.cq, &nothing) != 0) return 0;
  std::size_t count = 0;
  do {
    write_completion();
    ++count;
  } while (!cq_.is_full() && ibv_next_poll(way_.cq) == 0);
  ibv_end_poll(way_.cq);
  return count;
}

// The request is still in the ring: its place is free once the kernel has read this.
void raw_forwarder::write_completion() noexcept {
  const std::uint64_t index = way_.cq->wr_id;
  wqe::completion c;
  c.qpn = queue_.qpn;
  c.wqe_counter = static_cast<std::uint16_t>(index);
  c.send_opcode = static_cast<std::uint8_t>(be32(wqe::octoword_at(queue_.ring, index, 0)->word[0]));
  if (way_.cq->status == IBV_WC_SUCCESS) {
    c.kind = wqe::cqe_opcode::request;
    c.byte_count = ibv_wc_read_byte_len(way_.cq);
  } else {
    c.kind = wqe::cqe_opcode::request_error;
    c.error = syndrome_of(way_.cq->status);
    c.vendor_error = static_cast<std::uint8_t>(ibv_wc_read_vendor_err(way_.cq));
  }
  cq_.write(c);
}

}  // namespace lci::ibv
