// Puts, gets and signals. Callers: kernels, or threads of the process with an endpoint of theirs.
// Threads: any; all members of the scope that a call names.
// Always true: a refusal has written nothing, neither here nor there. Memory that both ends' keys
// map is copied by the scope at once; everything else is a request in the queue to the rank.
//
// - The source must stay unchanged until quiet(), and the data of a get are there only after it.
//   Only the source of put_value() may be reused at once.
// - Size 0 is legal: the places are not checked, and only the signal is sent.
// - A size above the limit of a request (`send_limits::max_message`, 2^30) takes several requests;
//   one signal follows the last one.
// - put_signal() copies directly only if data and signal are both mapped; otherwise both go through
//   the queue, so that they are ordered.
// - Over a card, a signal that adds waits for the card, and then until it is executed
//   (beside_card.hpp).
// - Order: requests to one rank are executed in the order posted, except that gets are not ordered
//   among each other, and puts of any size, values too, are not ordered among each other without
//   fence(). A signal by request comes after all earlier requests; of an earlier message it says
//   only that lci has it, see messages.hpp. A signal to a mapped word is a store at once, which may
//   be seen before the data of requests: if data went by request, call fence() before it. Of direct
//   copies and signals, only put_signal() makes an order: its signal is seen after its data, and
//   after what its scope copied before. Otherwise use fence(): a signal alone, including a
//   put_signal() of size 0, may be seen before earlier direct puts.
// - A put of 4 or 8 bytes at aligned places is one store at the peer. Between mapped places its
//   source may be read before the endpoint is checked: the source must be readable even if the call
//   is refused.
#pragma once

#include <cstdint>
#include <type_traits>

#include "lci/gpu/beside_card.hpp"
#include "lci/gpu/copying.hpp"
#include "lci/gpu/mapped_puts.hpp"
#include "lci/gpu/posting.hpp"
#include "lci/gpu/short_requests.hpp"
#include "lci/gpu/signals.hpp"

namespace lci::gpu {

namespace detail {

// What the leader has found out: an answer, and what is left to do for the whole scope.
struct transfer {
  status said = status::ok;
  bool is_direct = false;
  std::uint64_t to = 0, from = 0, size = 0;
  std::uint64_t signal = 0;  // where a direct signal goes; 0: nowhere
  bool is_near = false;      // all of it is in the memory of this GPU
};

// The request for `size` bytes, inline where they fit and this thread can read them.
LCI_ANYWHERE inline wqe::send_request put_request(const endpoint_record& record,
                                                  const found_place& to, const found_place& from,
                                                  const wqe::sge& piece) noexcept {
  wqe::send_request r;
  r.op = wqe::opcode::rdma_write;
  r.signaled = false;
  r.raddr = to.address;
  r.rkey = to.key;
  if (from.mapped != 0 && piece.length <= record.max_inline) {
    r.inline_data = pointer(from.mapped);
    r.inline_length = static_cast<std::uint32_t>(piece.length);
    r.inline_is_gpu_memory = wqe::runs_on_gpu();
  } else {
    r.entries = &piece;
    r.entry_count = 1;
  }
  return r;
}

LCI_ANYWHERE inline void advance(found_place* at, std::uint64_t by) noexcept {
  at->address += by;
  if (at->mapped != 0) at->mapped += by;
}

LCI_ANYWHERE inline signal_request no_signal() noexcept {
  signal_request none;
  none.is_wanted = false;
  return none;
}

LCI_ANYWHERE inline bool is_short(const record_words& record, const found_place& from,
                                  std::uint64_t size, const signal_request& signal) noexcept {
  if (signal.is_wanted && signal.op != signal_op::set) return false;
  return size == 0 ? signal.is_wanted && record.over_card == 0 : is_short(record, from, size);
}

// Values, not references: what a call that needs no request has found out stays in registers.
// All pieces of a put by requests, and its signal behind the last one if there is one.
template <class Scope>
LCI_ANYWHERE_ONCE status post_put(endpoint_t ep, int rank, found_place to, found_place from,
                                  std::uint64_t size, signal_request signal,
                                  found_place word) noexcept {
  const peer_record& peer = ep.record->peers[rank];
  const std::uint64_t most = peer.queue.limits.max_message;
  std::uint64_t end = 0;
  for (; size > most; size -= most) {
    const wqe::sge piece{from.address, most, from.key};
    request_run run;
    run.requests[run.count++] = put_request(*ep.record, to, from, piece);
    if (const status s = post_run<Scope>(peer, run, &end); s != status::ok) return s;
    advance(&to, most);
    advance(&from, most);
  }
  const wqe::sge piece{from.address, size, from.key};
  const wqe::sge landing = discarded(*ep.record, sizeof(std::uint64_t));
  const bool is_past_card =
      signal.is_wanted && signal.op == signal_op::add && ep.record->over_card != 0;
  request_run run;
  if (size != 0) run.requests[run.count++] = put_request(*ep.record, to, from, piece);
  if (signal.is_wanted && !is_past_card)
    run.requests[run.count++] = request_of(word, signal.value, signal.op, landing);
  if (run.count != 0)
    if (const status s = post_run<Scope>(peer, run, &end); s != status::ok) return s;
  if (!is_past_card) return status::ok;
  if (const status s = wait_for_card<Scope>(ep, rank); s != status::ok) return s;
  return post_beside<Scope>(ep, rank, request_of(word, signal.value, signal.op, landing), &end);
}

template <class Scope>
LCI_ANYWHERE transfer begin_put(const endpoint_t& ep, int rank, const place_t& to,
                                const place_t& from, std::uint64_t size,
                                signal_request signal) noexcept {
  transfer t;
  if (t.said = check_handle(ep); t.said != status::ok) return t;
  const record_words record = words_of(ep);
  mapped_put direct;
  if ((size != 0 || signal.is_wanted) &&
      find_mapped_put(ep, record, rank, to, {&from, 0}, size, signal, &direct)) {
    if (size == 0 || direct.is_word) {
      store_mapped(direct, size, signal);
    } else {
      t = {status::ok, true, direct.to, direct.from, size, direct.word, direct.is_near};
    }
    return t;
  }
  if (t.said = check_rank(ep, record, rank); t.said != status::ok) return t;
  found_place there, here, word;
  if (size != 0) {
    if (t.said = find(record, to, size, static_cast<std::uint32_t>(rank), &there);
        t.said != status::ok)
      return t;
    if (t.said = find(record, from, size, record.me, &here); t.said != status::ok) return t;
  }
  if (signal.is_wanted)
    if (t.said = find_signal(ep, record, rank, signal, &word); t.said != status::ok) return t;
  if (is_short(record, here, size, signal) && is_alone<Scope>()) {
    t.said =
        post_short_put(record.peers[rank], short_of(there, here, static_cast<std::uint32_t>(size)),
                       signal.is_wanted ? short_of(word, signal.value) : short_put{});
  } else {
    t.said = post_put<Scope>(ep, rank, there, here, size, signal, word);
  }
  return t;
}

template <class Scope>
LCI_ANYWHERE status put_with(const endpoint_t& ep, int rank, const place_t& to, const place_t& from,
                             std::uint64_t size, signal_request signal) noexcept {
  const transfer t =
      by_leader<Scope>([&] { return begin_put<Scope>(ep, rank, to, from, size, signal); });
  if (t.said != status::ok || !t.is_direct) return t.said;
  copy<Scope, source::own>(pointer(t.to), pointer(t.from), t.size);
  Scope::barrier();
  if (signal.is_wanted && Scope::index() == 0)
    signal_after(t.signal, signal.value, signal.op, t.is_near);
  return status::ok;
}

template <class Scope>
LCI_ANYWHERE status signal_by_leader(const endpoint_t& ep, int rank,
                                     const signal_request& what) noexcept {
  if (const status s = check_handle(ep); s != status::ok) return s;
  const record_words record = words_of(ep);
  if (mapped_put direct; find_mapped_put(ep, record, rank, {}, {}, 0, what, &direct)) {
    store_mapped(direct, 0, what);
    return status::ok;
  }
  if (const status s = check_rank(ep, record, rank); s != status::ok) return s;
  found_place word;
  if (const status s = find_signal(ep, record, rank, what, &word); s != status::ok) return s;
  if (is_short(record, {}, 0, what) && is_alone<Scope>())
    return post_short_put(record.peers[rank], {}, short_of(word, what.value));
  return post_put<Scope>(ep, rank, {}, {}, 0, what, word);
}

}  // namespace detail

// Writes `size` bytes at `from`, of this process, to `to`, of `rank`. Not ordered with other puts,
// even to the same place, without fence().
template <class Scope = thread>
LCI_ANYWHERE status put(const endpoint_t& ep, int rank, const place_t& to, const place_t& from,
                        std::uint64_t size) noexcept {
  return detail::put_with<Scope>(ep, rank, to, from, size, detail::no_signal());
}

// The same, and then changes the word of 8 bytes at `signal` of that rank, after the data. It comes
// after earlier puts by request to that rank only if it is a request too: if its data and word are
// mapped it waits for no request, so call fence() first.
template <class Scope = thread>
LCI_ANYWHERE status put_signal(const endpoint_t& ep, int rank, const place_t& to,
                               const place_t& from, std::uint64_t size, const place_t& signal,
                               std::uint64_t value, signal_op op = signal_op::set) noexcept {
  const detail::signal_request what{signal, value, op, true};
  return detail::put_with<Scope>(ep, rank, to, from, size, what);
}

// Changes the word of 8 bytes at `at` of `rank`: by request, after all earlier requests to that
// rank; a mapped word at once, so call fence() between such puts and it. Announce data with a
// signal, not with put_value().
template <class Scope = thread>
LCI_ANYWHERE status signal(const endpoint_t& ep, int rank, const place_t& at, std::uint64_t value,
                           signal_op op = signal_op::set) noexcept {
  const detail::signal_request what{at, value, op, true};
  return by_leader<Scope>([&] { return detail::signal_by_leader<Scope>(ep, rank, what); });
}

namespace detail {

template <class Scope, class T>
LCI_ANYWHERE status begin_put_value(const endpoint_t& ep, int rank, const place_t& to,
                                    const T& value) noexcept {
  if (const status s = check_handle(ep); s != status::ok) return s;
  const record_words record = words_of(ep);
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t> bits;
    std::memcpy(&bits, &value, sizeof(T));
    mapped_put direct;
    if (find_mapped_put(ep, record, rank, to, {nullptr, bits}, sizeof(T), no_signal(), &direct) &&
        direct.is_word) {
      store_mapped(direct, sizeof(T), no_signal());
      return status::ok;
    }
  }
  if (const status s = check_rank(ep, record, rank); s != status::ok) return s;
  found_place there;
  if (const status s = find(record, to, sizeof(T), static_cast<std::uint32_t>(rank), &there);
      s != status::ok)
    return s;
  if (there.mapped != 0) {
    std::memcpy(pointer(there.mapped), &value, sizeof(T));
    return status::ok;
  }
  if constexpr (sizeof(T) <= MOST_SHORT_PUT) {
    if (record.over_card == 0 && is_alone<Scope>())
      return post_short_put(record.peers[rank], short_of(there, value), {});
  }
  request_run run;
  wqe::send_request& r = run.requests[run.count++];
  r.op = wqe::opcode::rdma_write;
  r.signaled = false;
  r.raddr = there.address;
  r.rkey = there.key;
  r.inline_data = &value;
  r.inline_length = sizeof(T);
  std::uint64_t end = 0;
  return post_run<Scope>(ep.record->peers[rank], run, &end);
}

template <class Scope>
LCI_ANYWHERE transfer begin_get(const endpoint_t& ep, int rank, const place_t& to,
                                const place_t& from, std::uint64_t size) noexcept {
  transfer t;
  if (t.said = check_rank(ep, rank); t.said != status::ok || size == 0) return t;
  found_place here, there;
  if (t.said = find(*ep.record, to, size, ep.record->me, &here); t.said != status::ok) return t;
  if (t.said = find(*ep.record, from, size, static_cast<std::uint32_t>(rank), &there);
      t.said != status::ok)
    return t;
  if (here.mapped != 0 && there.mapped != 0) {
    t.is_direct = true;
    t.to = here.mapped;
    t.from = there.mapped;
    t.size = size;
    return t;
  }
  const peer_record& peer = ep.record->peers[rank];
  while (size != 0 && t.said == status::ok) {
    const std::uint64_t most = peer.queue.limits.max_message;
    const wqe::sge piece{here.address, size < most ? size : most, here.key};
    request_run run;
    wqe::send_request& r = run.requests[run.count++];
    r.op = wqe::opcode::rdma_read;
    r.signaled = false;
    r.raddr = there.address;
    r.rkey = there.key;
    r.entries = &piece;
    r.entry_count = 1;
    std::uint64_t end = 0;
    t.said = post_run<Scope>(peer, run, &end);
    advance(&here, piece.length);
    advance(&there, piece.length);
    size -= piece.length;
  }
  return t;
}

}  // namespace detail

// Writes a value of the leader, whose variable may be reused at once. At most 220 bytes, which
// travel in the request. Not ordered with other puts, like put(): announce the value with signal().
template <class Scope = thread, class T>
LCI_ANYWHERE status put_value(const endpoint_t& ep, int rank, const place_t& to,
                              const T& value) noexcept {
  static_assert(std::is_trivially_copyable<T>::value, "its bytes are what is written");
  static_assert(sizeof(T) <= 220, "larger ones are put from registered memory");
  return by_leader<Scope>([&] { return detail::begin_put_value<Scope>(ep, rank, to, value); });
}

// Reads `size` bytes at `from`, of `rank`, to `to`, of this process. The data are there after
// quiet().
template <class Scope = thread>
LCI_ANYWHERE status get(const endpoint_t& ep, int rank, const place_t& to, const place_t& from,
                        std::uint64_t size) noexcept {
  const detail::transfer t =
      by_leader<Scope>([&] { return detail::begin_get<Scope>(ep, rank, to, from, size); });
  if (t.said != status::ok || !t.is_direct) return t.said;
  copy<Scope, source::others>(pointer(t.to), pointer(t.from), t.size);
  Scope::barrier();
  return status::ok;
}

}  // namespace lci::gpu
