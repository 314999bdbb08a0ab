// Atomic operations of 4 and 8 bytes on registered memory of a rank. Callers: kernels, or threads
// of the process. Threads: any; of a scope the leader's operation is made once.
// Always true: an operation is atomic with respect to all other atomics of this folder on the word,
// and, if its memory is mapped, to those of system scope of any processor or GPU that can access
// it. A word that is not aligned to its size is refused. The old value arrives in registered memory
// of this process and is there after quiet(); or, if a pointer is given instead, the call waits for
// it.
// An operation by request comes after all earlier requests. An operation on mapped memory is
// executed at once, and may be seen before the data of requests: call fence() in between.
// Over a card all operations wait, first for what the card was given to that rank before, and then
// until they are executed (beside_card.hpp); no_atomics: an endpoint over a card has no queue for
// them. Waiting calls use a place of the endpoint for the old value (scratch.hpp).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lci/gpu/beside_card.hpp"
#include "lci/gpu/order.hpp"
#include "lci/gpu/remote.hpp"
#include "lci/gpu/scratch.hpp"
#include "lci/gpu/wait.hpp"

namespace lci::gpu {

namespace detail {

enum class atomic_kind { add, compare_swap, swap, and_, or_, xor_ };

// Numbers in the low half if they have 4 bytes.
struct atomic_call {
  atomic_kind kind = atomic_kind::add;
  std::uint32_t size = 8;
  std::uint64_t value = 0, compare = 0;
};

// A card adds, or swaps the bits of a mask if those of another mask are as said. A swap that
// compares no bit writes always: ones where `or` has ones, zeros where `and` has zeros. An addition
// that carries nothing over any bit is `xor`.
LCI_ANYWHERE inline wqe::send_request request_of(const atomic_call& call, const found_place& at,
                                                 const wqe::sge& landing) noexcept {
  const std::uint64_t all = call.size == 8 ? ~std::uint64_t{0} : 0xffffffffu;
  const bool is_and = call.kind == atomic_kind::and_, is_or = call.kind == atomic_kind::or_;
  wqe::send_request r;
  r.signaled = false;
  r.raddr = at.address;
  r.rkey = at.message_key;
  r.entries = &landing;
  r.entry_count = 1;
  r.atomic.swap_add = is_and ? 0 : call.value;
  r.atomic.compare = call.compare;
  r.atomic.size = call.size;
  if (call.kind == atomic_kind::add) {
    r.op = call.size == 8 ? wqe::opcode::atomic_fa : wqe::opcode::atomic_masked_fa;
  } else if (call.kind == atomic_kind::xor_) {
    r.op = wqe::opcode::atomic_masked_fa;
    r.atomic.compare_mask = all;  // where fields of the addition end
  } else if (call.kind == atomic_kind::compare_swap && call.size == 8) {
    r.op = wqe::opcode::atomic_cs;
  } else {
    r.op = wqe::opcode::atomic_masked_cs;
    r.atomic.swap_mask = is_and ? ~call.value & all : is_or ? call.value : all;
    r.atomic.compare_mask = call.kind == atomic_kind::compare_swap ? all : 0;
  }
  return r;
}

// What the word is afterwards, if it is changed.
template <class T>
LCI_ANYWHERE constexpr T changed(atomic_kind kind, T old, T value) noexcept {
  return kind == atomic_kind::and_   ? old & value
         : kind == atomic_kind::or_  ? old | value
         : kind == atomic_kind::xor_ ? old ^ value
                                     : value;
}

// edge gpu.atomic, both sides: it takes what others published with the word, and publishes.
template <class T>
LCI_ANYWHERE T apply(const atomic_call& call, std::uint64_t mapped) noexcept {
  wqe::word_at<T> word(static_cast<T*>(pointer(mapped)));
  const T value = static_cast<T>(call.value), compare = static_cast<T>(call.compare);
  if (call.kind == atomic_kind::add) return word.fetch_add(value, std::memory_order_acq_rel);
  // Relaxed: a guess that the exchange proves. Where the word is not as expected there is none, and
  // the look itself takes what came with it.
  const bool is_compared = call.kind == atomic_kind::compare_swap;
  const auto look = [&] {
    return is_compared ? word.load(std::memory_order_acquire)
                       : word.load(std::memory_order_relaxed);
  };
  T old = look();
  while (!is_compared || old == compare) {
    const T next = changed(call.kind, old, value);
    if (word.compare_exchange_strong(old, next, std::memory_order_acq_rel)) return old;
    old = look();
  }
  return old;
}
LCI_ANYWHERE inline std::uint64_t apply(const atomic_call& call, std::uint64_t mapped) noexcept {
  return call.size == 8 ? apply<std::uint64_t>(call, mapped) : apply<std::uint32_t>(call, mapped);
}

LCI_ANYWHERE inline status find_word(const endpoint_t& ep, int rank, const place_t& at,
                                     std::uint32_t size, found_place* out) noexcept {
  if (const status s = check_rank(ep, rank); s != status::ok) return s;
  if (const status s = find(*ep.record, at, size, static_cast<std::uint32_t>(rank), out);
      s != status::ok)
    return s;
  const std::uint64_t at_gpu = out->mapped;
  out->mapped = out->mapped_for_atomics;
  return (at_gpu != 0 ? at_gpu : out->address) % size == 0 ? status::ok : status::misaligned_atomic;
}

// One store where that can be: others may look at the place.
LCI_ANYWHERE inline void store_old(std::uint64_t at, std::uint32_t size,
                                   std::uint64_t was) noexcept {
  if (at % size == 0) return store_word(at, size, was);
  std::memcpy(pointer(at), &was, size);
}

// The old value to `old`, or, if that is null, nowhere.
template <class Scope>
LCI_ANYWHERE_ONCE status start_atomic(const endpoint_t& ep, int rank, const place_t& at,
                                      const atomic_call& call, const place_t* old) noexcept {
  found_place word, here;
  if (const status s = find_word(ep, rank, at, call.size, &word); s != status::ok) return s;
  if (old != nullptr) {
    if (const status s = find(*ep.record, *old, call.size, ep.record->me, &here); s != status::ok)
      return s;
  }
  if (word.mapped != 0 && (old == nullptr || here.mapped != 0)) {
    const std::uint64_t was = apply(call, word.mapped);
    if (old != nullptr) store_old(here.mapped, call.size, was);
    return status::ok;
  }
  if (!takes_atomics(*ep.record)) return status::no_atomics;
  if (old == nullptr && ep.record->scratch.key == 0) return status::bad_key;
  const wqe::sge landing = old == nullptr ? discarded(*ep.record, call.size)
                                          : wqe::sge{here.address, call.size, here.message_key};
  if (const status s = wait_for_card<Scope>(ep, rank); s != status::ok) return s;
  std::uint64_t end = 0;
  return post_beside<Scope>(ep, rank, request_of(call, word, landing), &end);
}

// Waits for the old value.
template <class Scope>
LCI_ANYWHERE_ONCE answer do_atomic(const endpoint_t& ep, int rank, const place_t& at,
                                   const atomic_call& call) noexcept {
  found_place word;
  answer a;
  if (a.said = find_word(ep, rank, at, call.size, &word); a.said != status::ok) return a;
  if (word.mapped != 0) {
    a.value = apply(call, word.mapped);
    return a;
  }
  if (!takes_atomics(*ep.record)) {
    a.said = status::no_atomics;
    return a;
  }
  const wqe::sge landing;  // ask() says where
  return ask<Scope>(ep, rank, request_of(call, word, landing), call.size);
}

template <class T>
LCI_ANYWHERE constexpr std::uint64_t bits_of(T value) noexcept {
  return static_cast<typename word_of<T>::type>(value);
}

template <class T>
LCI_ANYWHERE constexpr atomic_call call_of(atomic_kind kind, T value, T compare = T{}) noexcept {
  return {kind, sizeof(T), bits_of(value), bits_of(compare)};
}

template <class Scope>
LCI_ANYWHERE status start_by_leader(const endpoint_t& ep, int rank, const place_t& at,
                                    const atomic_call& call, const place_t* old) noexcept {
  return by_leader<Scope>([&] { return start_atomic<Scope>(ep, rank, at, call, old); });
}

template <class Scope, class T>
LCI_ANYWHERE status do_by_leader(const endpoint_t& ep, int rank, const place_t& at,
                                 const atomic_call& call, T* old) noexcept {
  const answer a = by_leader<Scope>([&] { return do_atomic<Scope>(ep, rank, at, call); });
  if (a.said == status::ok) *old = static_cast<T>(a.value);
  return a.said;
}

}  // namespace detail

// Adds, and writes the old value to `old`. Without `old` it adds and returns no value.
template <class Scope = thread, class T>
LCI_ANYWHERE status fetch_add(const endpoint_t& ep, int rank, const place_t& at, T value,
                              const place_t& old) noexcept {
  return detail::start_by_leader<Scope>(ep, rank, at,
                                        detail::call_of(detail::atomic_kind::add, value), &old);
}
template <class Scope = thread, class T>
LCI_ANYWHERE status fetch_add(const endpoint_t& ep, int rank, const place_t& at, T value,
                              T* old) noexcept {
  return detail::do_by_leader<Scope>(ep, rank, at, detail::call_of(detail::atomic_kind::add, value),
                                     old);
}
template <class Scope = thread, class T>
LCI_ANYWHERE status add(const endpoint_t& ep, int rank, const place_t& at, T value) noexcept {
  return detail::start_by_leader<Scope>(ep, rank, at,
                                        detail::call_of(detail::atomic_kind::add, value), nullptr);
}

// Writes `value` if the word is `expected`.
template <class Scope = thread, class T>
LCI_ANYWHERE status compare_swap(const endpoint_t& ep, int rank, const place_t& at, T expected,
                                 T value, const place_t& old) noexcept {
  return detail::start_by_leader<Scope>(
      ep, rank, at, detail::call_of(detail::atomic_kind::compare_swap, value, expected), &old);
}
template <class Scope = thread, class T>
LCI_ANYWHERE status compare_swap(const endpoint_t& ep, int rank, const place_t& at, T expected,
                                 T value, T* old) noexcept {
  return detail::do_by_leader<Scope>(
      ep, rank, at, detail::call_of(detail::atomic_kind::compare_swap, value, expected), old);
}

// Writes `value`.
template <class Scope = thread, class T>
LCI_ANYWHERE status swap(const endpoint_t& ep, int rank, const place_t& at, T value,
                         const place_t& old) noexcept {
  return detail::start_by_leader<Scope>(ep, rank, at,
                                        detail::call_of(detail::atomic_kind::swap, value), &old);
}
template <class Scope = thread, class T>
LCI_ANYWHERE status swap(const endpoint_t& ep, int rank, const place_t& at, T value,
                         T* old) noexcept {
  return detail::do_by_leader<Scope>(ep, rank, at,
                                     detail::call_of(detail::atomic_kind::swap, value), old);
}

// Writes `value`; returns no value.
template <class Scope = thread, class T>
LCI_ANYWHERE status set(const endpoint_t& ep, int rank, const place_t& at, T value) noexcept {
  return detail::start_by_leader<Scope>(ep, rank, at,
                                        detail::call_of(detail::atomic_kind::swap, value), nullptr);
}

// Reads the word. Into registered memory: fetch_add() of 0.
template <class Scope = thread, class T>
LCI_ANYWHERE status fetch(const endpoint_t& ep, int rank, const place_t& at, T* old) noexcept {
  return fetch_add<Scope>(ep, rank, at, T{0}, old);
}

// Clears the bits that `value` does not have, and writes the old value to `old`. Without `old` it
// returns no value.
template <class Scope = thread, class T>
LCI_ANYWHERE status fetch_and(const endpoint_t& ep, int rank, const place_t& at, T value,
                              const place_t& old) noexcept {
  return detail::start_by_leader<Scope>(ep, rank, at,
                                        detail::call_of(detail::atomic_kind::and_, value), &old);
}
template <class Scope = thread, class T>
LCI_ANYWHERE status fetch_and(const endpoint_t& ep, int rank, const place_t& at, T value,
                              T* old) noexcept {
  return detail::do_by_leader<Scope>(ep, rank, at,
                                     detail::call_of(detail::atomic_kind::and_, value), old);
}
template <class Scope = thread, class T>
LCI_ANYWHERE status and_(const endpoint_t& ep, int rank, const place_t& at, T value) noexcept {
  return detail::start_by_leader<Scope>(ep, rank, at,
                                        detail::call_of(detail::atomic_kind::and_, value), nullptr);
}

// Sets the bits of `value`.
template <class Scope = thread, class T>
LCI_ANYWHERE status fetch_or(const endpoint_t& ep, int rank, const place_t& at, T value,
                             const place_t& old) noexcept {
  return detail::start_by_leader<Scope>(ep, rank, at,
                                        detail::call_of(detail::atomic_kind::or_, value), &old);
}
template <class Scope = thread, class T>
LCI_ANYWHERE status fetch_or(const endpoint_t& ep, int rank, const place_t& at, T value,
                             T* old) noexcept {
  return detail::do_by_leader<Scope>(ep, rank, at, detail::call_of(detail::atomic_kind::or_, value),
                                     old);
}
template <class Scope = thread, class T>
LCI_ANYWHERE status or_(const endpoint_t& ep, int rank, const place_t& at, T value) noexcept {
  return detail::start_by_leader<Scope>(ep, rank, at,
                                        detail::call_of(detail::atomic_kind::or_, value), nullptr);
}

// Inverts the bits of `value`.
template <class Scope = thread, class T>
LCI_ANYWHERE status fetch_xor(const endpoint_t& ep, int rank, const place_t& at, T value,
                              const place_t& old) noexcept {
  return detail::start_by_leader<Scope>(ep, rank, at,
                                        detail::call_of(detail::atomic_kind::xor_, value), &old);
}
template <class Scope = thread, class T>
LCI_ANYWHERE status fetch_xor(const endpoint_t& ep, int rank, const place_t& at, T value,
                              T* old) noexcept {
  return detail::do_by_leader<Scope>(ep, rank, at,
                                     detail::call_of(detail::atomic_kind::xor_, value), old);
}
template <class Scope = thread, class T>
LCI_ANYWHERE status xor_(const endpoint_t& ep, int rank, const place_t& at, T value) noexcept {
  return detail::start_by_leader<Scope>(ep, rank, at,
                                        detail::call_of(detail::atomic_kind::xor_, value), nullptr);
}

}  // namespace lci::gpu
