#include "lci/proto/host/select.hpp"

#include <array>

#include "lci/proto/host/eager.hpp"

namespace lci::proto {

namespace {

bool accepts_all(const outgoing&) noexcept { return true; }

// The sender asks first.
constexpr post_protocol RENDEZVOUS = {
    {"rendezvous", nullptr, nullptr, true}, &accepts_all, &start_rendezvous};

constexpr std::array<const post_protocol*, 4> MESSAGE_PROTOCOLS = {&INJECT, &BCOPY, &ZERO_COPY,
                                                                   &RENDEZVOUS};

}  // namespace

std::span<const post_protocol* const> message_protocols() noexcept { return MESSAGE_PROTOCOLS; }

const post_protocol& select_message(const outgoing& out) noexcept {
  const post_protocol* const* p = MESSAGE_PROTOCOLS.data();
  while (!(*p)->accepts(out)) ++p;
  return **p;
}

errorcode_t start_message(outgoing& out) {
  if (out.kind != mem::mem_kind::host) [[unlikely]] {
    if (const auto code = out.host.accelerator->start_message(out)) return *code;
    return start_rendezvous(out);
  }
  return select_message(out).start(out);
}

errorcode_t start_rendezvous(outgoing& out) {
  send_plan plan = out.plan();
  network_key key;
  if (out.local_key == 0 && is_for_network(out.host, plan)) {
    if (const errorcode_t code = out.refusal(); is_retry(code)) return code;
    key = key_for(out.host, out.rank, out.buffer, out.size, out.kind);
    plan.local_key = key.get();
    plan.registered_here = key.get() != 0;
    plan.off_network = key.is_off();
  }
  const errorcode_t code = start_send(out.host, out.queue, out.rcomp, plan, out.may_retry);
  if (error_t(code).is_posted()) key.release();  // goes with the state
  return code;
}

}  // namespace lci::proto
