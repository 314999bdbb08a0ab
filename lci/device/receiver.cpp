#include "lci/device/receiver.hpp"

#include <algorithm>
#include <cstring>

#include "lci/wqe/progress.hpp"

namespace lci::device {
namespace {

using wqe::cqe_opcode;
using wqe::syndrome;

cqe_opcode kind_of(wqe::opcode op) {
  return op == wqe::opcode::send_imm     ? cqe_opcode::resp_send_imm
         : op == wqe::opcode::send_inval ? cqe_opcode::resp_send_inv
                                         : cqe_opcode::resp_send;
}

}  // namespace

receiver::receiver(const recv_queue& queue, key_table& keys)
    : queue_(queue), keys_(keys), cq_(queue.cq) {}

// edge wqe.receives, other side in the program: post_receives() of lci/wqe.
answer receiver::readiness() const noexcept {
  if (has_failed_) return failed(syndrome::retry_exceeded);
  const std::uint32_t posted =
      wqe::be32(wqe::word_at<std::uint32_t>(queue_.record + wqe::RECEIVE_RECORD)
                    .load(std::memory_order_acquire));
  const bool has_entry = wqe::widened(next_, static_cast<std::uint16_t>(posted)) != next_;
  return has_entry && !cq_.is_full() ? answer{} : answer{outcome::retry, {}};
}

// The places of the next entry, as many as `length` bytes need.
bool receiver::resolve_entry(std::uint64_t length, syndrome* why) {
  const std::uint32_t most = std::min(segments_of(queue_.ring), MOST_PIECES);
  const auto* const entry = static_cast<const wqe::octoword*>(queue_.ring.base) +
                            (next_ & (queue_.ring.entries - 1)) * segments_of(queue_.ring);
  std::uint32_t places = 0;
  for (std::uint32_t i = 0; i < most && length != 0; ++i) {
    const wqe::octoword o = entry[i];
    const std::uint32_t said = wqe::be32(o.word[0]), key = wqe::be32(o.word[1]);
    if (said == 0 || key == wqe::INVALID_LKEY) break;
    const auto used = static_cast<std::uint32_t>(std::min<std::uint64_t>(said, length));
    const std::uint64_t address = std::uint64_t{wqe::be32(o.word[2])} << 32 | wqe::be32(o.word[3]);
    std::byte* const at = keys_.resolve(key, address, used, WRITE);
    if (at == nullptr) {
      *why = syndrome::local_protection;
      return false;
    }
    places_[places++] = {at, used};
    length -= used;
  }
  if (length == 0) return true;
  *why = syndrome::local_length;
  return false;
}

void receiver::complete(cqe_opcode kind, std::uint64_t length, std::uint32_t imm,
                        std::uint32_t source_qp, bool solicited, syndrome why) {
  wqe::completion c;
  c.kind = kind;
  c.solicited = solicited;
  c.qpn = queue_.qpn;
  c.wqe_counter = static_cast<std::uint16_t>(next_++);
  c.byte_count = static_cast<std::uint32_t>(length);
  c.imm = imm;
  c.source_qp = source_qp;
  c.error = why;
  cq_.write(c);
}

answer receiver::take(wqe::opcode op, const local_data& from, std::uint32_t imm,
                      std::uint32_t source_qp, bool solicited) noexcept {
  if (const answer a = readiness(); a.what != outcome::done) return a;
  syndrome why = syndrome::none;
  if (!resolve_entry(from.length, &why)) {
    has_failed_ = true;
    complete(cqe_opcode::response_error, 0, 0, source_qp, false, why);
    return failed(why == syndrome::local_length ? syndrome::remote_invalid_request
                                                : syndrome::remote_operation);
  }
  std::uint32_t place = 0, used = 0;
  for (std::uint32_t i = 0; i < from.count; ++i) {
    for (std::uint32_t done = 0; done < from.pieces[i].length;) {
      const std::uint32_t n = std::min(from.pieces[i].length - done, places_[place].length - used);
      std::memmove(places_[place].at + used, from.pieces[i].at + done, n);
      done += n;
      used += n;
      if (used == places_[place].length) ++place, used = 0;
    }
  }
  // Before the completion: a thread that sees that finds the key removed.
  if (op == wqe::opcode::send_inval) keys_.remove(imm);
  complete(kind_of(op), from.length, imm, source_qp, solicited, syndrome::none);
  return {};
}

answer receiver::notify(std::uint64_t length, std::uint32_t imm, std::uint32_t source_qp,
                        bool solicited) noexcept {
  if (const answer a = readiness(); a.what != outcome::done) return a;
  complete(cqe_opcode::resp_write_imm, length, imm, source_qp, solicited, syndrome::none);
  return {};
}

}  // namespace lci::device
