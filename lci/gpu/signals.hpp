// What a signal is, before it goes anywhere: where its word is, the store that makes it where that
// is mapped, and the request that makes it where it is not. Callers: remote.hpp. Threads: any.
// Always true: a signal that is refused has changed nothing; one that stands behind data is seen
// after it.
#pragma once

#include <cstdint>

#include "lci/gpu/access.hpp"

namespace lci::gpu {

// What a signal does to its word of 8 bytes.
enum class signal_op { set, add };

namespace detail {

struct signal_request {
  place_t at;
  std::uint64_t value = 0;
  signal_op op = signal_op::set;
  bool is_wanted = true;
};

// `landing` and `value` must live as long as the request.
LCI_ANYWHERE inline wqe::send_request request_of(const found_place& at, const std::uint64_t& value,
                                                 signal_op op, const wqe::sge& landing) noexcept {
  wqe::send_request r;
  r.signaled = false;
  r.fence = wqe::fence_mode::small;  // tells it from a value, which may overtake what is before it
  r.raddr = at.address;
  r.rkey = op == signal_op::set ? at.key : at.message_key;
  if (op == signal_op::set) {
    r.op = wqe::opcode::rdma_write;
    r.inline_data = &value;
    r.inline_length = sizeof(value);
  } else {
    r.op = wqe::opcode::atomic_fa;
    r.atomic.swap_add = value;
    r.entries = &landing;
    r.entry_count = 1;
  }
  return r;
}

// Where unwanted old values land.
LCI_ANYWHERE inline wqe::sge discarded(const endpoint_record& record, std::uint32_t size) noexcept {
  return {record.scratch.base, size, record.scratch.key};
}

LCI_ANYWHERE inline status find_signal(const endpoint_t& ep, const record_words& record, int rank,
                                       const signal_request& what, found_place* out) noexcept {
  if (const status s =
          find(record, what.at, sizeof(std::uint64_t), static_cast<std::uint32_t>(rank), out);
      s != status::ok)
    return s;
  if ((out->mapped != 0 ? out->mapped : out->address) % sizeof(std::uint64_t) != 0)
    return status::misaligned_atomic;
  if (what.op == signal_op::set) return status::ok;
  out->mapped = out->mapped_for_atomics;
  if (out->mapped != 0) return status::ok;
  if (!takes_atomics(*ep.record)) return status::no_atomics;
  // Without a place for the old value no request can add.
  return ep.record->scratch.key == 0 ? status::bad_key : status::ok;
}

// Alone. Relaxed on a GPU: a barrier of system scope costs more than the store, and fence() makes
// one where it is wanted. A processor has it for nothing.
LCI_ANYWHERE inline void signal_alone(std::uint64_t at, std::uint64_t value,
                                      signal_op op) noexcept {
#ifdef __CUDA_ARCH__
  wqe::word_at<std::uint64_t> word(static_cast<std::uint64_t*>(pointer(at)));
  if (op == signal_op::set) {
    word.store(value, std::memory_order_relaxed);
  } else {
    word.fetch_add(value, std::memory_order_relaxed);
  }
#else
  // edge gpu.signal: partner is wait_until().
  wqe::word_at<std::uint64_t> word(static_cast<std::uint64_t*>(pointer(at)));
  if (op == signal_op::set) {
    word.store(value, std::memory_order_release);
  } else {
    word.fetch_add(value, std::memory_order_release);
  }
#endif
}
// Behind data. edge gpu.signal: what the scope wrote before is seen by a thread that has seen the
// word. Partner is wait_until().
LCI_ANYWHERE inline void signal_after(std::uint64_t at, std::uint64_t value, signal_op op,
                                      bool is_near) noexcept {
#ifdef __CUDA_ARCH__
  // Relaxed behind a barrier of the GPU: nothing beyond it looks.
  if (is_near) {
    __threadfence();
    return signal_alone(at, value, op);
  }
#else
  static_cast<void>(is_near);
#endif
  wqe::word_at<std::uint64_t> word(static_cast<std::uint64_t*>(pointer(at)));
  if (op == signal_op::set) {
    word.store(value, std::memory_order_release);
  } else {
    word.fetch_add(value, std::memory_order_release);
  }
}

}  // namespace detail

}  // namespace lci::gpu
