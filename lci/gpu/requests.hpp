// The requests of one call before they are in a queue. Callers: posting.hpp, together.hpp. Threads:
// a run is one thread's. Always true: a run that was checked fits into what may be reserved at
// once.
#pragma once

#include <cstdint>

#include "lci/gpu/access.hpp"

namespace lci::gpu {

// The requests of one call, at most two.
struct request_run {
  wqe::send_request requests[2];
  std::uint32_t count = 0;
};

LCI_ANYWHERE inline std::uint32_t blocks_in(const wqe::send_request& r) noexcept {
  return wqe::blocks_of(static_cast<std::uint32_t>(wqe::octowords_of(r)));
}
LCI_ANYWHERE inline std::uint32_t blocks_in(const request_run& run) noexcept {
  std::uint32_t n = 0;
  for (std::uint32_t i = 0; i < run.count; ++i) n += blocks_in(run.requests[i]);
  return n;
}

// How many blocks may be reserved at once: see must_signal(), by which all requests of a short
// ring, and at least one in each half of a longer one, ask for a completion.
LCI_ANYWHERE constexpr std::uint32_t most_at_once(const wqe::send_ring& ring) noexcept {
  return ring.blocks < 2 * wqe::MAX_BLOCKS ? ring.blocks : ring.blocks / 2;
}

LCI_ANYWHERE inline status check_run(const wqe::send_queue& q, request_run& run) noexcept {
  for (std::uint32_t i = 0; i < run.count; ++i) {
    run.requests[i].qpn = q.qpn;
    if (const status s = wqe::check(q.ring, run.requests[i], q.limits); s != status::ok) return s;
  }
  // A ring of an endpoint has at least 16 blocks, and its requests at most four.
  if (blocks_in(run) > most_at_once(q.ring)) return status::longer_than_ring;
  return look_at(&q.state->ended) == 0 ? status::ok : status::dead;
}

LCI_ANYWHERE inline void write_run(const wqe::send_queue& q, std::uint64_t base,
                                   request_run& run) noexcept {
  for (std::uint32_t i = 0; i < run.count; ++i) {
    wqe::send_request& r = run.requests[i];
    const std::uint32_t blocks = blocks_in(r);
    r.signaled |= wqe::must_signal(base, blocks, q.ring.blocks);
    wqe::write_checked(q.ring, base, r);
    base += blocks;
  }
}

// Relaxed: the number alone matters; admit() and publish() order the rest.
LCI_ANYWHERE inline std::uint64_t reserve(const wqe::send_queue& q, std::uint32_t blocks) noexcept {
  return wqe::word_at<std::uint64_t>(&q.state->reserved)
      .fetch_add(blocks, std::memory_order_relaxed);
}

}  // namespace lci::gpu
