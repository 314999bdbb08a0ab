// From the structures of the C face to the types of this room, and back. Callers: c_face.h with
// nvcc, c_face.cpp without. Threads: as there.
// Always true: what the C structures leave 0 has the default that c_face.h names.
#pragma once

#include "lci/wqe/c_face.h"
#include "lci/wqe/completion_queue.hpp"
#include "lci/wqe/doorbell.hpp"
#include "lci/wqe/recv_wqe.hpp"
#include "lci/wqe/send_wqe.hpp"

namespace lci::wqe::c_face {

LCI_ANYWHERE constexpr std::int64_t answer_of(status s) noexcept {
  return static_cast<std::int64_t>(s);
}

LCI_ANYWHERE inline std::int64_t send(const lci_send_wqe_params_t& p) noexcept {
  if (p.opcode > 0xff) return answer_of(status::bad_opcode);
  if (p.fence > 0xff) return answer_of(status::bad_fence);
  const sge entry{p.laddr, p.length, p.lkey};
  send_request r;
  r.op = static_cast<opcode>(p.opcode);
  r.qpn = p.qpn;
  r.signaled = p.signaled != 0;
  r.solicited = p.solicited != 0;
  r.fence = static_cast<fence_mode>(p.fence);
  r.imm = p.imm;
  r.raddr = p.raddr;
  r.rkey = p.rkey;
  r.entries = &entry;
  r.entry_count = p.length != 0 ? 1 : 0;
  r.inline_data = p.inline_data;
  r.inline_length = p.inline_length;
  r.atomic = {p.swap_add, p.compare, p.swap_mask, p.compare_mask,
              p.atomic_size != 0 ? p.atomic_size : 8};
  send_limits limits;
  if (p.max_inline != 0) limits.max_inline = p.max_inline;
  written_wqe out;
  const status s = write_send_wqe({p.ring, p.wqe_cnt}, p.index, r, limits, &out);
  return s == status::ok ? std::int64_t{out.blocks} : answer_of(s);
}

LCI_ANYWHERE inline std::int64_t receive(const lci_recv_wqe_params_t& p) noexcept {
  const sge entry{p.laddr, p.length, p.lkey};
  const std::uint32_t stride = p.stride != 0 ? p.stride : OCTOWORD_SIZE;
  const status s = write_recv_wqe({p.ring, p.wqe_cnt, stride}, p.index, &entry, 1);
  return s == status::ok ? 1 : answer_of(s);
}

LCI_ANYWHERE inline std::int64_t ring(const lci_db_ring_params_t& p) noexcept {
  if (p.is_receive != 0) {
    post_receives(p.dbrec, p.next_index);
    return 0;
  }
  const send_ring requests{p.ring, p.wqe_cnt};
  if (const status s = check_ring(requests); s != status::ok) return answer_of(s);
  const auto form = static_cast<doorbell_form>(p.form);
  if (!is_known(form)) return answer_of(status::bad_doorbell_form);
  std::uint32_t first_half = 0;
  const doorbell bell{form, p.dbrec, p.target, p.buffer_size};
  ring_doorbell(bell, requests, {p.next_index, p.last_index, p.single != 0},
                p.buffer_used != nullptr ? *p.buffer_used : first_half);
  return 0;
}

LCI_ANYWHERE inline std::int64_t poll(const lci_cqe_poll_params_t& p) noexcept {
  const completion_queue cq{p.cq, p.cqe_cnt, p.cqe_size != 0 ? p.cqe_size : CQE_SIZE, p.dbrec};
  if (const status s = check(cq); s != status::ok) return answer_of(s);
  completion c;
  const status s = wqe::poll(cq, p.consumer_index, &c);
  if (s == status::nothing) return answer_of(s);
  if (p.dbrec != nullptr) give_back(cq, p.consumer_index + 1);
  if (p.cqe != nullptr) {
    *p.cqe = {c.qpn,
              c.byte_count,
              c.imm,
              c.wqe_counter,
              static_cast<std::uint8_t>(c.kind),
              c.send_opcode,
              static_cast<std::uint8_t>(c.error),
              c.vendor_error};
  }
  return s == status::ok ? std::int64_t{c.byte_count} : answer_of(s);
}

}  // namespace lci::wqe::c_face
