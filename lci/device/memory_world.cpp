#include "lci/device/memory_world.hpp"

#include <cstring>

namespace lci::device {
namespace {

using wqe::opcode;
using wqe::syndrome;
using wqe::word_at;

bool is_aligned(const std::byte* at, std::uint64_t to) {
  return reinterpret_cast<std::uintptr_t>(at) % to == 0;
}

// edge wqe.signal, other side in the program, which polls the word.
template <class T>
void store_word(std::byte* to, const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  word_at<T>(reinterpret_cast<T*>(to)).store(value, std::memory_order_release);
}

void put_bytes(std::byte* to, const std::byte* from, std::uint32_t length) {
  if (length == 8 && is_aligned(to, 8)) return store_word<std::uint64_t>(to, from);
  if (length == 4 && is_aligned(to, 4)) return store_word<std::uint32_t>(to, from);
  std::memmove(to, from, length);
}

// Fields end at the bits of `boundary`: nothing is carried over them.
template <class T>
T added(T a, T b, T boundary) {
  return static_cast<T>(((a & ~boundary) + (b & ~boundary)) ^ ((a ^ b) & boundary));
}

template <class T>
T changed(opcode op, T old, const wqe::atomic_operands& with) {
  const T value = static_cast<T>(with.swap_add), compare = static_cast<T>(with.compare);
  if (op == opcode::atomic_fa) return static_cast<T>(old + value);
  if (op == opcode::atomic_masked_fa) return added(old, value, static_cast<T>(with.compare_mask));
  const bool is_plain = op == opcode::atomic_cs;
  const T compared = is_plain ? static_cast<T>(~T{0}) : static_cast<T>(with.compare_mask);
  const T written = is_plain ? static_cast<T>(~T{0}) : static_cast<T>(with.swap_mask);
  if (((old ^ compare) & compared) != 0) return old;
  return static_cast<T>((old & ~written) | (value & written));
}

// edge wqe.atomic, both sides: requests of any queue, and the program's own operations on the word.
template <class T>
void apply(opcode op, const wqe::atomic_operands& with, std::byte* at, std::byte* out) {
  word_at<T> word(reinterpret_cast<T*>(at));
  T old = word.load(std::memory_order_acquire);
  while (!word.compare_exchange_strong(old, changed(op, old, with), std::memory_order_acq_rel))
    old = word.load(std::memory_order_acquire);
  std::memcpy(out, &old, sizeof(old));
}

}  // namespace

answer memory_world::put(opcode op, const local_data& from, remote_place to, std::uint32_t imm,
                         bool solicited) noexcept {
  std::byte* at = nullptr;
  if (from.length != 0) {
    at = keys_.resolve(to.key, to.address, from.length, REMOTE_WRITE);
    if (at == nullptr) return failed(syndrome::remote_access);
  }
  const bool notifies = op == opcode::rdma_write_imm;
  if (notifies) {
    const answer a = peer_ == nullptr ? answer{outcome::retry, {}} : peer_->readiness();
    if (a.what != outcome::done) return a;
  }
  for (std::uint32_t i = 0; i < from.count; ++i) {
    put_bytes(at, from.pieces[i].at, from.pieces[i].length);
    at += from.pieces[i].length;
  }
  return notifies ? peer_->notify(from.length, imm, qpn_, solicited) : answer{};
}

answer memory_world::get(remote_place from, const local_data& to) noexcept {
  if (to.length == 0) return {};
  const std::byte* at = keys_.resolve(from.key, from.address, to.length, REMOTE_READ);
  if (at == nullptr) return failed(syndrome::remote_access);
  for (std::uint32_t i = 0; i < to.count; ++i) {
    put_bytes(to.pieces[i].at, at, to.pieces[i].length);
    at += to.pieces[i].length;
  }
  return {};
}

answer memory_world::send(opcode op, const local_data& from, std::uint32_t imm,
                          bool solicited) noexcept {
  if (peer_ == nullptr) return {outcome::retry, {}};
  return peer_->take(op, from, imm, qpn_, solicited);
}

answer memory_world::atomic(opcode op, const wqe::atomic_operands& with, remote_place at,
                            std::byte* old) noexcept {
  std::byte* const place = keys_.resolve(at.key, at.address, with.size, REMOTE_ATOMIC);
  if (place == nullptr) return failed(syndrome::remote_access);
  if (!is_aligned(place, with.size)) return failed(syndrome::remote_invalid_request);
  if (with.size == 4) {
    apply<std::uint32_t>(op, with, place, old);
  } else {
    apply<std::uint64_t>(op, with, place, old);
  }
  return {};
}

}  // namespace lci::device
