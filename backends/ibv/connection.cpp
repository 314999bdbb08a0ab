#include "backends/ibv/connection.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>

namespace lci::ibv {
namespace {

std::array<std::uint64_t, 3> rooms_of(std::uint32_t depth, std::uint32_t reserved) noexcept {
  const std::uint32_t kept = std::clamp(reserved, connection::RESERVE, depth - 1);
  return {depth - kept, depth - connection::RESERVE, depth};
}

}  // namespace

connection::connection(int r, qp_handle q, std::uint32_t p, std::uint32_t depth,
                       std::uint32_t reserved, base::biased_lock* shared, thread_domain h)
    : net::connected::connection(r),
      home(std::move(h)),
      qp(std::move(q)),
      psn(p),
      room_(rooms_of(depth, reserved)),
      // Among as many as a user may post there is one that the card reports.
      batch_(std::clamp<std::uint64_t>(depth / 4, 1, room_of(claim::user))),
      mask_(std::bit_ceil(std::uint64_t{depth}) - 1),
      lock_(shared != nullptr ? *shared : own_lock_),
      ring_(std::make_unique<entry[]>(mask_ + 1)),
      next_signal_(batch_ - 1) {}

void connection::enter(const send_record& what, std::uint64_t number) noexcept {
  // Relaxed here and below: only the holder of the lock writes these.
  const std::uint64_t at = records_.load(std::memory_order_relaxed);
  ring_[at & mask_] = {what, number};
  if (what.what == purpose::user)
    users_.store(users_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  // edge connection.ring: the record before its number; partner is take_done().
  records_.store(at + 1, std::memory_order_release);
}

LCI_COLD void connection::forget_users() noexcept {
  // edge connection.ring: partner is post().
  const std::uint64_t end = records_.load(std::memory_order_acquire);
  for (std::uint64_t at = records_done_.load(std::memory_order_relaxed); at != end; ++at)
    if (send_record& one = ring_[at & mask_].what; one.what == purpose::user) one.context = nullptr;
}

LCI_COLD void connection::settle() noexcept {
  while (!lock_.try_lock()) sched_yield();
  lock_.unlock();
}

// The card did not take it.
LCI_COLD errorcode_t connection::undo(std::uint64_t number, const send_record* what,
                                      int error) noexcept {
  // edge connection.next: there is nothing of that number; partners are last_posted() and
  // is_idle().
  next_.store(number, std::memory_order_release);
  if (what != nullptr) {
    // edge connection.ring: its record is taken back; partner is take_done().
    records_.store(records_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    if (what->what == purpose::user)
      users_.store(users_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }
  if (error != ENOMEM) set_refused(error);
  return errorcode_t::retry_nomem;
}

}  // namespace lci::ibv
