#include "lci/device/memory_world.hpp"

#include <cstring>

#include "lci/wqe/apply_change.hpp"

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
  const std::uint64_t before = wqe::apply(wqe::change_of(op, with), static_cast<void*>(place));
  std::memcpy(old, &before, with.size);
  return {};
}

}  // namespace lci::device
