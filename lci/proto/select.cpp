#include "lci/proto/select.hpp"

#include <array>

#include "lci/proto/eager.hpp"

namespace lci::proto {

namespace {

bool is_host(const outgoing& out) noexcept { return out.kind == mem::mem_kind::host; }

bool accepts_inject(const outgoing& out) noexcept {
  return out.size <= out.inject_limit && !out.extended && !out.wants_network && is_host(out);
}

bool accepts_bcopy(const outgoing& out) noexcept {
  // With an extended head the copy is needed anyway. B already leaves room for that head.
  return out.size <= out.bcopy_limit && (!out.has_mr || out.extended) && is_host(out);
}

bool accepts_zero_copy(const outgoing& out) noexcept {
  return out.size <= out.bcopy_limit && !out.extended && is_host(out) &&
         out.size <= out.via.via.fabric.caps_of(out.rank).max_send;
}

bool accepts_by_hand(const outgoing& out) noexcept { return may_go_by_hand(out); }

bool accepts_rendezvous(const outgoing&) noexcept { return true; }

errorcode_t start_rendezvous(outgoing& out) {
  if (!is_for_network(out.via.via, out.rank, out.kind)) [[unlikely]] {
    if (const auto code = out.via.via.known_offers.claim(out)) return *code;
  }
  send_plan plan = out.plan();
  network_key key;
  if (out.local_key == 0 && is_for_network(out.via.via, plan)) {
    if (const errorcode_t code = out.refusal(); is_retry(code)) return code;
    key = key_for(out.via.via, out.rank, out.buffer, out.size, out.kind);
    plan.local_key = key.get();
    plan.registered_here = key.get() != 0;
    plan.off_network = key.is_off();
  }
  const errorcode_t code = start_send(out.via, out.rcomp, plan, out.may_retry);
  if (error_t(code).is_posted()) key.release();  // goes with the state
  return code;
}

errorcode_t start_by_hand_or_ask(outgoing& out) {
  if (const auto code = start_by_hand(out)) return *code;
  return start_rendezvous(out);
}

constexpr std::array<protocol, 5> MESSAGE_PROTOCOLS = {{
    {"inject", &accepts_inject, &start_inject},
    {"bcopy", &accepts_bcopy, &start_bcopy},
    {"zero_copy", &accepts_zero_copy, &start_zero_copy},
    {"by_hand", &accepts_by_hand, &start_by_hand_or_ask},
    {"rendezvous", &accepts_rendezvous, &start_rendezvous},
}};

}  // namespace

std::span<const protocol> message_protocols() noexcept { return MESSAGE_PROTOCOLS; }

const protocol& select_message(const outgoing& out) noexcept {
  const protocol* p = MESSAGE_PROTOCOLS.data();
  while (!p->accepts(out)) ++p;
  return *p;
}

errorcode_t start_message(outgoing& out) { return select_message(out).start(out); }

}  // namespace lci::proto
