// What ends a wait of a call that waits for a word, not for a queue: the limits of the endpoint,
// its end, the end of a peer, and a queue of the endpoint that has ended: what is waited for may be
// the answer to a request that failed. Callers: the waits of this room. Threads: a patience belongs
// to one wait. Always true: no wait of this room is without one; it reads completions that no other
// thread reads; the first rounds look at nothing but what is waited for, since the other words may
// be in memory that takes a microsecond to read.
#pragma once

#include <cstdint>

#include "lci/gpu/access.hpp"

namespace lci::gpu {

class patience {
 public:
  static constexpr std::uint32_t LOOK_EVERY = 32;

  // Of the wait for a rank, or for any. `ended` may be null: then no end matters but that of the
  // queue to `rank`.
  LCI_ANYWHERE patience(const endpoint_t& ep, const std::uint32_t* ended, int rank) noexcept
      : ep_(ep), ended_(ended), rank_(rank), waiter_(ep.record->waits) {}

  // One round that found nothing. Not ok: the wait ends with this, after one more look.
  LCI_ANYWHERE status operator()() noexcept {
    if (++rounds_ % LOOK_EVERY != 0) return status::ok;
    if (look_at(&ep_.record->generation) != ep_.generation) return status::bad_endpoint;
    if (const status s = waiter_.look(); s != status::ok) return s;
    if (ended_ != nullptr && look_at(ended_) != 0) return status::peer_lost;
    if (const status s = look_at_queue(); s != status::ok) return s;
    wqe::give_way();
    return status::ok;
  }
  // What is there now: as long as it changes, the limit does not count.
  LCI_ANYWHERE void saw(std::uint64_t value) noexcept { waiter_.saw(value); }

 private:
  // Of all ranks one each time.
  LCI_ANYWHERE status look_at_queue() noexcept {
    const endpoint_record& r = *ep_.record;
    const std::uint32_t at =
        rank_ == ANY_RANK ? next_++ % r.ranks : static_cast<std::uint32_t>(rank_);
    const status s = look_at_queue(r.peers[at]);
    if (s != status::ok || r.message_peers == nullptr) return s;
    return look_at_queue(r.message_peers[at]);
  }
  LCI_ANYWHERE static status look_at_queue(const peer_record& peer) noexcept {
    const wqe::send_queue& q = peer.queue;
    if (look_at(&q.state->reserved) != look_at(&q.state->done)) {
      wqe::try_ring(q);
      wqe::drain(q);
    }
    return look_at(&q.state->ended) == 0 ? status::ok : reason_of(peer);
  }

  endpoint_t ep_;
  const std::uint32_t* ended_;
  int rank_;
  std::uint32_t next_ = 0;
  wqe::waiter waiter_;
  std::uint32_t rounds_ = 0;
};

// For waits for one rank, or for any.
LCI_ANYWHERE inline const std::uint32_t* ended_word(const endpoint_record& record,
                                                    int rank) noexcept {
  return rank == ANY_RANK ? record.any_ended : record.peers[rank].ended;
}

}  // namespace lci::gpu
