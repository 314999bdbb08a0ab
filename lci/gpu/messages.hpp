// Sends, active messages and receives that a kernel posts; the host's matching engine handles them.
// Callers: kernels, or threads of the process. Threads: any; the leader of a scope posts.
// Always true: a message of at most `max_inline` bytes, and at most MOST_INLINE_MESSAGE, travels in
// the request if the thread can read it, so its memory may be reused at once. A longer one is read
// from registered memory, which must stay unchanged until quiet(). A message comes after earlier
// requests to that rank; over a card it waits for them. Its request only hands it to lci: on every
// tier, puts, signals and atomics after a message may be seen before it, even with quiet() or
// fence() in between, which say only that the message's memory is free. Receives go through the
// queue to the own rank, so those of one thread are matched in the order posted. A ticket is valid
// for one wait. A receive whose wait was aborted or timed out may still be written, and its ticket
// stays valid. So does that of a receive from ANY_RANK whose wait ended because a rank has ended.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lci/gpu/beside_card.hpp"
#include "lci/gpu/message.hpp"
#include "lci/gpu/posting.hpp"
#include "lci/gpu/short_requests.hpp"
#include "lci/gpu/waiting.hpp"

namespace lci::gpu {

// A receive that was posted.
struct ticket_t {
  std::uint64_t turn = 0;        // internal; 0: none
  std::int32_t rank = ANY_RANK;  // internal: from whom
};

// What a receive has become, or what a message of a queue_t is.
struct message_t {
  status said = status::ok;  // peer_lost, too_long (longer than the room), or another end
  int rank = -1;             // the sender
  std::uint64_t size = 0;    // bytes of the message
  std::uint64_t tag = 0;
};

namespace detail {

// A head and what travels with it.
struct message_bytes {
  alignas(8) unsigned char bytes[sizeof(message_head) + MOST_INLINE_MESSAGE];
};

// Behind wait_for_card().
template <class Scope>
LCI_ANYWHERE status post_head(const endpoint_t& ep, int rank, const message_head& head,
                              const void* payload) noexcept {
  message_bytes m;
  std::memcpy(m.bytes, &head, sizeof(head));
  const auto* const from = static_cast<const unsigned char*>(payload);
  for (std::uint32_t i = 0; i < head.inline_length; ++i) m.bytes[sizeof(head) + i] = from[i];
  request_run run;
  wqe::send_request& r = run.requests[run.count++];
  r.op = wqe::opcode::send_imm;
  r.imm = MESSAGE;
  r.signaled = false;
  r.inline_data = m.bytes;
  r.inline_length = static_cast<std::uint32_t>(sizeof(head) + head.inline_length);
  std::uint64_t end = 0;
  return post_run<Scope>(peer_beside(*ep.record, rank), run, &end);
}

template <class Scope>
LCI_ANYWHERE_ONCE status post_message(const endpoint_t& ep, int rank, const message_head& head,
                                      const void* payload) noexcept {
  if (const status s = wait_for_card<Scope>(ep, rank); s != status::ok) return s;
  return post_head<Scope>(ep, rank, head, payload);
}

LCI_ANYWHERE inline std::uint32_t most_inline(const endpoint_record& record) noexcept {
  return record.max_inline < MOST_INLINE_MESSAGE ? record.max_inline : MOST_INLINE_MESSAGE;
}

template <class Scope>
LCI_ANYWHERE status send_from(const endpoint_t& ep, int rank, message_head head,
                              const place_t& from, std::uint64_t size) noexcept {
  if (const status s = check_rank(ep, rank); s != status::ok) return s;
  found_place here;
  if (size != 0) {
    if (const status s = find(*ep.record, from, size, ep.record->me, &here); s != status::ok)
      return s;
  }
  if (here.mapped != 0 && size <= most_inline(*ep.record)) {
    head.inline_length = static_cast<std::uint16_t>(size);
  } else if (size != 0) {
    head.laddr = here.address;
    head.length = size;
    head.lkey = here.message_key;
  }
  return post_message<Scope>(ep, rank, head, pointer(here.mapped));
}

template <class Scope, class T>
LCI_ANYWHERE status send_of_value(const endpoint_t& ep, int rank, message_head head,
                                  const T& value) noexcept {
  static_assert(std::is_trivially_copyable<T>::value, "its bytes are the message");
  static_assert(sizeof(T) <= MOST_INLINE_MESSAGE, "longer ones are sent from registered memory");
  if (const status s = check_handle(ep); s != status::ok) return s;
  const record_words record = words_of(ep);
  if (const status s = check_rank(ep, record, rank); s != status::ok) return s;
  if constexpr (sizeof(T) <= MOST_SHORT_MESSAGE) {
    if (record.over_card == 0 && is_alone<Scope>())
      return post_short_message(record.peers[rank], head.kind, head.rcomp, head.tag, sizeof(T),
                                bytes_of<MOST_SHORT_MESSAGE / 4>(value));
  }
  head.inline_length = sizeof(T);
  return post_message<Scope>(ep, rank, head, &value);
}

LCI_ANYWHERE inline message_head head_of(message_kind kind, std::uint32_t rcomp,
                                         std::uint64_t tag) noexcept {
  message_head head;
  head.kind = kind;
  head.rcomp = rcomp;
  head.tag = tag;
  return head;
}

LCI_ANYWHERE inline receive_slot& slot_of(const endpoint_record& r, std::uint64_t turn) noexcept {
  return r.receives[(turn - 1) & (r.receive_count - 1)];
}
LCI_ANYWHERE constexpr std::uint64_t posted_state(std::uint64_t turn) noexcept {
  return 2 * turn - 1;
}

// Takes the next free slot. Each turn is one caller's alone, so a turn whose slot is not free is
// passed over. edge gpu.receive_free: partner is free_slot().
LCI_ANYWHERE inline bool try_take(std::uint64_t* state, std::uint64_t posted) noexcept {
#ifdef __CUDA_ARCH__
  // Of the GPU's scope: the slot is in host memory, where a GPU's atomics hold among its kernels
  // alone. The host writes only slots that are posted.
  static_assert(sizeof(unsigned long long) == sizeof(*state), "the builtin's type");
  return atomicCAS(reinterpret_cast<unsigned long long*>(state), 0ull,
                   static_cast<unsigned long long>(posted)) == 0;
#else
  return wqe::word_at<std::uint64_t>(state).compare_exchange_strong(0, posted,
                                                                    std::memory_order_acq_rel);
#endif
}
LCI_ANYWHERE inline status take_slot(const endpoint_record& r, std::uint64_t* turn) noexcept {
  for (std::uint32_t i = 0; i < r.receive_count; ++i) {
    // Relaxed: the number alone matters.
    *turn = wqe::word_at<std::uint64_t>(r.next_receive).fetch_add(1, std::memory_order_relaxed) + 1;
    std::uint64_t* const state = &slot_of(r, *turn).state;
    if (look_at(state) == 0 && try_take(state, posted_state(*turn))) return status::ok;
  }
  return status::no_receive_slot;
}
// edge gpu.receive_free: the result was read before the slot is another's. Partner is take_slot().
LCI_ANYWHERE inline void free_slot(const endpoint_record& r, std::uint64_t turn) noexcept {
  wqe::word_at<std::uint64_t>(&slot_of(r, turn).state).store(0, std::memory_order_release);
}

template <class Scope>
LCI_ANYWHERE_ONCE status post_receive(const endpoint_t& ep, int rank, const place_t& to,
                                      std::uint64_t size, std::uint64_t tag,
                                      std::uint64_t* turn) noexcept {
  if (const status s = rank == ANY_RANK ? check_endpoint(ep) : check_rank(ep, rank);
      s != status::ok)
    return s;
  const endpoint_record& r = *ep.record;
  found_place here;
  if (size != 0) {
    if (const status s = find(r, to, size, r.me, &here); s != status::ok) return s;
  }
  const int me = static_cast<int>(r.me);
  if (const status s = wait_for_card<Scope>(ep, me); s != status::ok) return s;
  if (const status s = take_slot(r, turn); s != status::ok) return s;
  message_head head;
  head.kind = message_kind::recv;
  head.rcomp = static_cast<std::uint32_t>((*turn - 1) & (r.receive_count - 1));
  head.tag = tag;
  head.laddr = here.address;
  head.length = size;
  head.lkey = here.message_key;
  head.rank = rank;
  const status s = post_head<Scope>(ep, me, head, nullptr);
  // Aborted or timed out it may be in the queue already: the slot stays taken.
  if (s == status::dead || s == status::peer_lost) free_slot(r, *turn);
  return s;
}

// nothing: not yet. edge gpu.receive, other side in the host, which stores the result before the
// state.
LCI_ANYWHERE inline status look_at_receive(const endpoint_record& r, std::uint64_t turn,
                                           message_t* out) noexcept {
  if (turn == 0) return status::bad_key;
  receive_slot& slot = slot_of(r, turn);
  const std::uint64_t state =
      wqe::word_at<std::uint64_t>(&slot.state).load(std::memory_order_acquire);
  if (state == posted_state(turn)) return status::nothing;
  if (state != 2 * turn) return status::bad_key;
  out->said = static_cast<status>(slot.result);
  out->rank = slot.rank;
  out->size = slot.size;
  out->tag = slot.tag;
  free_slot(r, turn);
  return status::ok;
}

struct received {
  status said = status::ok;
  message_t message;
};

LCI_ANYWHERE_ONCE inline received wait_for_receive(const endpoint_t& ep, const ticket_t& ticket,
                                                   bool waits) noexcept {
  received out;
  if (out.said = check_endpoint(ep); out.said != status::ok) return out;
  // The host ends receives from a rank that has ended, but not those from any, which another rank
  // may still meet. The requests of both are in the own queue.
  patience wait(ep, ticket.rank < 0 ? ep.record->any_ended : nullptr,
                static_cast<int>(ep.record->me));
  for (;;) {
    out.said = look_at_receive(*ep.record, ticket.turn, &out.message);
    if (out.said != status::nothing || !waits) return out;
    if (const status s = wait(); s != status::ok) {
      out.said = look_at_receive(*ep.record, ticket.turn, &out.message);
      if (out.said == status::nothing) out.said = s;
      return out;
    }
  }
}

template <class Scope>
LCI_ANYWHERE status receive_by_leader(const endpoint_t& ep, const ticket_t& ticket,
                                      message_t* result, bool waits) noexcept {
  const received r = by_leader<Scope>([&] { return wait_for_receive(ep, ticket, waits); });
  if (r.said == status::ok && result != nullptr) *result = r.message;
  return r.said == status::ok ? r.message.said : r.said;
}

}  // namespace detail

// Sends `size` bytes at `from`, of this process, to a receive of `rank` with this tag, which the
// rank's host or a kernel posted.
template <class Scope = thread>
LCI_ANYWHERE status send(const endpoint_t& ep, int rank, const place_t& from, std::uint64_t size,
                         std::uint64_t tag) noexcept {
  const message_head head = detail::head_of(message_kind::send, 0, tag);
  return by_leader<Scope>([&] { return detail::send_from<Scope>(ep, rank, head, from, size); });
}
// The same with a value of the leader, of at most 180 bytes.
template <class Scope = thread, class T>
LCI_ANYWHERE status send_value(const endpoint_t& ep, int rank, const T& value,
                               std::uint64_t tag) noexcept {
  const message_head head = detail::head_of(message_kind::send, 0, tag);
  return by_leader<Scope>([&] { return detail::send_of_value<Scope>(ep, rank, head, value); });
}

// Sends an active message to the completion object that `rank` registered as `rcomp`: a handler, a
// queue, a counter, or a queue of kernels.
template <class Scope = thread>
LCI_ANYWHERE status am(const endpoint_t& ep, int rank, const place_t& from, std::uint64_t size,
                       std::uint32_t rcomp, std::uint64_t tag = 0) noexcept {
  const message_head head = detail::head_of(message_kind::am, rcomp, tag);
  return by_leader<Scope>([&] { return detail::send_from<Scope>(ep, rank, head, from, size); });
}
template <class Scope = thread, class T>
LCI_ANYWHERE status am_value(const endpoint_t& ep, int rank, const T& value, std::uint32_t rcomp,
                             std::uint64_t tag = 0) noexcept {
  const message_head head = detail::head_of(message_kind::am, rcomp, tag);
  return by_leader<Scope>([&] { return detail::send_of_value<Scope>(ep, rank, head, value); });
}

// Posts a receive of at most `size` bytes to `to`, from `rank` or ANY_RANK, with this tag.
// no_receive_slot: the endpoint accepts no more receives now.
template <class Scope = thread>
LCI_ANYWHERE status recv(const endpoint_t& ep, int rank, const place_t& to, std::uint64_t size,
                         std::uint64_t tag, ticket_t* ticket) noexcept {
  struct posted {
    status said;
    ticket_t ticket;
  };
  const posted p = by_leader<Scope>([&] {
    posted out{status::ok, {0, rank}};
    out.said = detail::post_receive<Scope>(ep, rank, to, size, tag, &out.ticket.turn);
    return out;
  });
  if (p.said == status::ok) *ticket = p.ticket;
  return p.said;
}

// Waits for a receive, and releases its ticket. ok: the message has arrived; otherwise the reason
// why the receive or the wait has ended; a receive from ANY_RANK also ends its wait with the end of
// any rank. bad_key: the ticket was used before. `result` may be null.
template <class Scope = thread>
LCI_ANYWHERE status wait_receive(const endpoint_t& ep, const ticket_t& ticket,
                                 message_t* result = nullptr) noexcept {
  return detail::receive_by_leader<Scope>(ep, ticket, result, true);
}
// Checks once; returns `nothing` if the receive has not ended.
template <class Scope = thread>
LCI_ANYWHERE status test_receive(const endpoint_t& ep, const ticket_t& ticket,
                                 message_t* result = nullptr) noexcept {
  return detail::receive_by_leader<Scope>(ep, ticket, result, false);
}

}  // namespace lci::gpu
