#include "backends/ibv/link.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>

namespace lci::ibv {

link::link(int r, qp_handle q, std::uint32_t p, std::uint32_t depth, base::biased_lock* shared,
           thread_domain h)
    : rank(r),
      home(std::move(h)),
      qp(std::move(q)),
      psn(p),
      depth_(depth),
      users_room_(depth - RESERVE),
      batch_(std::max<std::uint32_t>(depth / 4, 1)),
      mask_(std::bit_ceil(depth_) - 1),
      lock_(shared != nullptr ? *shared : own_lock_),
      ring_(std::make_unique<entry[]>(mask_ + 1)),
      next_signal_(batch_ - 1) {}

void link::enter(const send_record& what, std::uint64_t number) noexcept {
  // Relaxed here and below: only who has the lock writes these.
  const std::uint64_t at = records_.load(std::memory_order_relaxed);
  ring_[at & mask_] = {what, number};
  if (what.what == purpose::user)
    users_.store(users_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  // edge link.ring: the record before its number; partner is take_done().
  records_.store(at + 1, std::memory_order_release);
}

LCI_COLD void link::settle() noexcept {
  while (!lock_.try_lock()) sched_yield();
  lock_.unlock();
}

// The card did not take it.
LCI_COLD errorcode_t link::undo(std::uint64_t number, const send_record* what, int error) noexcept {
  next_.store(number, std::memory_order_release);
  if (what != nullptr) {
    records_.store(records_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    if (what->what == purpose::user)
      users_.store(users_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }
  if (error != ENOMEM) refused_.store(error, std::memory_order_relaxed);
  return errorcode_t::retry_nomem;
}

}  // namespace lci::ibv
