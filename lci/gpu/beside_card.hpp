// What an endpoint over a card does past it: messages, which its queues do not carry, atomic
// operations, for which memory is not registered with it, and reads of values into memory that the
// card does not know. They take queues beside the card's, which the proxy reads. Callers:
// messages.hpp, scratch.hpp, atomics.hpp, remote.hpp. Threads: any; of a scope the leader.
// Always true: what goes past the card comes behind all that the card was given to that rank
// before, since the call waits for that. An atomic operation is carried out when the call returns,
// so what the card is given next comes behind it. Where there is no card the queue to a rank is
// the only one, and nothing here waits.
#pragma once

#include <cstdint>

#include "lci/gpu/order.hpp"

namespace lci::gpu::detail {

// The queue to that rank that the proxy reads.
LCI_ANYWHERE inline const peer_record& peer_beside(const endpoint_record& record,
                                                   int rank) noexcept {
  return (record.over_card != 0 ? record.message_peers : record.peers)[rank];
}

// Until what went through a card to that rank before is carried out. Not ok: nothing may follow.
template <class Scope>
LCI_ANYWHERE status wait_for_card(const endpoint_t& ep, int rank) noexcept {
  if (ep.record->over_card == 0) return status::ok;
  if (ep.record->message_peers == nullptr) return status::no_messages;
  return quiet_of<Scope>(ep.record->peers[rank]);
}

// Behind wait_for_card().
template <class Scope>
LCI_ANYWHERE status post_beside(const endpoint_t& ep, int rank, const wqe::send_request& what,
                                std::uint64_t* end) noexcept {
  const bool is_past_card = ep.record->over_card != 0;
  const peer_record& peer = peer_beside(*ep.record, rank);
  request_run run;
  run.requests[0] = what;
  run.requests[0].signaled |= is_past_card;
  run.count = 1;
  const status s = post_run<Scope>(peer, run, end);
  return is_past_card && s == status::ok ? wait_for(peer, *end) : s;
}

}  // namespace lci::gpu::detail
