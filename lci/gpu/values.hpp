// Reads of values of up to 8 bytes that the caller waits for. Callers: kernels, or threads of the
// process. Threads: any; all members of the scope that a call names.
// Always true: a refusal, or a wait that ends early, leaves the caller's value unchanged. A value
// of 4 or 8 bytes at an aligned place is read at once. The read makes no order, neither with
// earlier puts (call fence() in between) nor with what the owner wrote beside the value: read a
// word that announces data by fetch(), or wait for it where it is. Over a card the proxy reads the
// value, after the card has executed what it was given to that rank (beside_card.hpp).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lci/gpu/copying.hpp"
#include "lci/gpu/mapped_puts.hpp"
#include "lci/gpu/scratch.hpp"

namespace lci::gpu {

namespace detail {

// As an answer has them.
LCI_ANYWHERE inline std::uint64_t read_value(std::uint64_t at, std::uint32_t size) noexcept {
  if ((size == 4 || size == 8) && at % size == 0) return read_word(at, size);
  std::uint64_t eight = 0;
  std::uint32_t four = 0;
  if (size > 4) {
    copy_bytes<thread, source::others>(&eight, pointer(at), size);
    return eight;
  }
  copy_bytes<thread, source::others>(&four, pointer(at), size);
  return four;
}

template <class Scope>
LCI_ANYWHERE_ONCE answer do_get_value(const endpoint_t& ep, int rank, const place_t& from,
                                      std::uint32_t size) noexcept {
  answer a;
  if (a.said = check_rank(ep, rank); a.said != status::ok) return a;
  found_place there;
  a.said = find(*ep.record, from, size, static_cast<std::uint32_t>(rank), &there);
  if (a.said != status::ok) return a;
  if (there.mapped != 0) {
    a.value = read_value(there.mapped, size);
    return a;
  }
  wqe::send_request r;  // ask() says where it lands
  r.op = wqe::opcode::rdma_read;
  r.raddr = there.address;
  r.rkey = there.message_key;
  return ask<Scope>(ep, rank, r, size);
}

}  // namespace detail

// Reads the value at `from`, of `rank`, and waits for it.
template <class Scope = thread, class T>
LCI_ANYWHERE status get_value(const endpoint_t& ep, int rank, const place_t& from,
                              T* value) noexcept {
  static_assert(std::is_trivially_copyable<T>::value, "its bytes are what is read");
  static_assert(sizeof(T) <= 8, "larger ones are got into registered memory");
  const detail::answer a = by_leader<Scope>(
      [&] { return detail::do_get_value<Scope>(ep, rank, from, std::uint32_t{sizeof(T)}); });
  if (a.said != status::ok) return a.said;
  const auto four = static_cast<std::uint32_t>(a.value);
  std::memcpy(value, sizeof(T) > 4 ? static_cast<const void*>(&a.value) : &four, sizeof(T));
  return status::ok;
}

}  // namespace lci::gpu
