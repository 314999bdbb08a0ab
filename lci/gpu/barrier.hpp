// A barrier of all ranks, using words that the program has registered at each of them. Callers:
// kernels, or threads of the process; one scope of each rank. Threads: all members of the scope
// that a call names.
// Always true: a rank that has passed knows that every rank came, and sees what each had started
// before it came. A wait of the barrier ends as those of wait.hpp do, also with the end of any
// rank; other ranks may have passed by then. In each of its steps, of which there are as many as
// words, a rank notifies one that is twice as far away as in the step before (dissemination), so no
// rank is notified by all.
#pragma once

#include <cstdint>

#include "lci/gpu/order.hpp"
#include "lci/gpu/remote.hpp"
#include "lci/gpu/wait.hpp"

namespace lci::gpu {

// How many words of 8 bytes each rank needs for a barrier of that many ranks.
LCI_ANYWHERE constexpr std::uint32_t barrier_words(std::uint32_t ranks) noexcept {
  std::uint32_t n = 0;
  while (std::uint64_t{1} << n < ranks) ++n;
  return n;
}

namespace detail {

template <class Scope>
LCI_ANYWHERE_ONCE status do_barrier(const endpoint_t& ep, const place_t* words,
                                    const std::uint64_t* own, std::uint64_t round) noexcept {
  if (const status s = check_endpoint(ep); s != status::ok) return s;
  const endpoint_record& r = *ep.record;
  for (std::uint32_t i = 0; i < r.ranks; ++i)
    if (const status s = quiet_of_rank<Scope>(r, i); s != status::ok) return s;
  for (std::uint32_t step = 0; step < barrier_words(r.ranks); ++step) {
    // Before each signal: it tells also of what others did, of which this rank was told.
    wqe::to_card_barrier();
    const auto to = static_cast<std::uint32_t>((r.me + (std::uint64_t{1} << step)) % r.ranks);
    signal_request tell{words[to], round, signal_op::set, true};
    tell.at.offset += sizeof(std::uint64_t) * step;
    if (const status s = signal_by_leader<Scope>(ep, static_cast<int>(to), tell); s != status::ok)
      return s;
    const status s = wait_here(ep, own + step, comparison::greater_equal, round, ANY_RANK);
    if (s != status::ok) return s;
  }
  return status::ok;
}

}  // namespace detail

// Waits until all ranks have made the call for this round; calls quiet() first. `words` has, for
// each rank, the place of its barrier_words(), in memory that can be read here; `own` are those of
// this rank. They are 0 before the first round, which has the number 1; each later round is one
// more. Barriers that are under way at the same time need separate words.
template <class Scope = thread>
LCI_ANYWHERE status barrier(const endpoint_t& ep, const place_t* words, const std::uint64_t* own,
                            std::uint64_t round) noexcept {
  return by_leader<Scope>([&] { return detail::do_barrier<Scope>(ep, words, own, round); });
}

}  // namespace lci::gpu
