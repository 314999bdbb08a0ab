// What ends a wait of a call that waits for a word, not for a queue: the limits of the endpoint,
// its end, and the end of a peer. Callers: the waits of this room. Threads: a patience belongs to
// one wait. Always true: no wait of this room is without one; the first rounds look at nothing but
// what is waited for, since the other words may be in memory that takes a microsecond to read.
#pragma once

#include <cstdint>

#include "lci/gpu/access.hpp"

namespace lci::gpu {

class patience {
 public:
  static constexpr std::uint32_t LOOK_EVERY = 32;

  // `ended` may be null: nobody's end matters.
  LCI_ANYWHERE patience(const endpoint_t& ep, const std::uint32_t* ended) noexcept
      : ep_(ep), ended_(ended), waiter_(ep.record->waits) {}

  // One round that found nothing. Not ok: the wait ends with this, after one more look.
  LCI_ANYWHERE status operator()() noexcept {
    if (++rounds_ % LOOK_EVERY != 0) return status::ok;
    if (look_at(&ep_.record->generation) != ep_.generation) return status::bad_endpoint;
    if (const status s = waiter_.look(); s != status::ok) return s;
    if (ended_ != nullptr && look_at(ended_) != 0) return status::peer_lost;
    wqe::give_way();
    return status::ok;
  }
  // What is there now: as long as it changes, the limit does not count.
  LCI_ANYWHERE void saw(std::uint64_t value) noexcept { waiter_.saw(value); }

 private:
  endpoint_t ep_;
  const std::uint32_t* ended_;
  wqe::waiter waiter_;
  std::uint32_t rounds_ = 0;
};

// For waits for one rank, or for any.
LCI_ANYWHERE inline const std::uint32_t* ended_word(const endpoint_record& record,
                                                    int rank) noexcept {
  return rank == ANY_RANK ? record.any_ended : record.peers[rank].ended;
}

}  // namespace lci::gpu
