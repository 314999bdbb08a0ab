#include "backends/ibv/link.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

namespace lci::ibv {

link::link(int r, qp_handle q, std::uint32_t p, std::uint32_t depth)
    : rank(r),
      qp(std::move(q)),
      psn(p),
      depth_(depth),
      batch_(std::max<std::uint32_t>(depth / 4, 1)),
      mask_(std::bit_ceil(std::uint64_t{depth}) - 1),
      ring_(mask_ + 1) {}

errorcode_t link::post(ibv_send_wr& wr, const send_record& what) noexcept {
  if (state() != stage::ready && what.what != purpose::farewell) [[unlikely]]
    return refusal();
  if (!lock_.try_lock()) return errorcode_t::retry_lock;
  const std::uint64_t number = next_.load(std::memory_order_relaxed);
  const std::uint32_t room = what.what == purpose::user ? depth_ - RESERVE : depth_;
  // edge link.room: partner is take_done().
  if (number - done_.load(std::memory_order_acquire) >= room) [[unlikely]] {
    lock_.unlock();
    return errorcode_t::retry_nomem;
  }
  const bool is_signalled = what.is_awaited || silent_ + 1 >= batch_;
  if (is_signalled) wr.send_flags |= IBV_SEND_SIGNALED;
  wr.wr_id = id_of_send(number);
  ring_[number & mask_] = what;
  // edge link.ring: the record before its number; partner is take_done(). Before the post, since
  // the completion may be faster than we are.
  next_.store(number + 1, std::memory_order_release);
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp.get(), &wr, &bad);
  if (error == 0) [[likely]] {
    silent_ = is_signalled ? 0 : silent_ + 1;
  } else {
    next_.store(number, std::memory_order_release);
    if (error != ENOMEM) refused_.store(error, std::memory_order_relaxed);
  }
  lock_.unlock();
  return error == 0 ? errorcode_t::done : errorcode_t::retry_nomem;
}

}  // namespace lci::ibv
