// What a channel has to tell: problems that were kept, and peers that are gone.
#include <exception>
#include <mutex>
#include <new>
#include <utility>

#include "lci/proto/channel.hpp"

namespace lci::proto {

void channel::count_news_locked() noexcept {
  const bool has_problems = !problems_.empty() || was_problem_lost_;
  has_problems_.store(has_problems, std::memory_order_relaxed);
  has_news_.store(has_problems || lost.any(), std::memory_order_relaxed);
}

void channel::keep(std::exception_ptr problem) noexcept {
  const std::lock_guard lock(lists_lock_);
  try {
    problems_.push_back(std::move(problem));
  } catch (const std::bad_alloc&) {
    was_problem_lost_ = true;
  }
  count_news_locked();
}

void channel::rethrow_kept() {
  std::exception_ptr first;
  {
    const std::lock_guard lock(lists_lock_);
    if (problems_.empty() && !was_problem_lost_) return;
    // One at a time: each problem reaches somebody.
    if (!problems_.empty()) {
      first = problems_.front();
      problems_.erase(problems_.begin());
    } else {
      was_problem_lost_ = false;
    }
    count_news_locked();
  }
  if (!first) throw std::bad_alloc();
  std::rethrow_exception(first);
}

// A death comes before other problems of the round: it is the cause of many.
void channel::tell_news() {
  const bool is_silent = lost.is_silent_here();
  int rank = is_silent ? losses::NONE : lost.take(true);
  if (rank == losses::NONE) {
    if (has_problems_.load(std::memory_order_relaxed)) rethrow_kept();
    if (!is_silent) rank = lost.take(false);
  }
  if (rank == losses::NONE) return;
  {
    const std::lock_guard lock(lists_lock_);
    count_news_locked();
  }
  shared.throw_gone(rank);
}

void channel::throw_loss(std::uint32_t number) { shared.throw_gone(lost.tell(number)); }

// False: there is no memory; it has to be called again.
bool channel::keep_gone(int rank) noexcept {
  const std::lock_guard lock(lists_lock_);
  const bool is_due = shared.failure_notice == attr_failure_notice_t::all ||
                      needs_all_.load(std::memory_order_relaxed) != 0 ||
                      concerned_[static_cast<std::size_t>(rank)];
  const bool is_kept = lost.add(rank, shared.has_died(rank), is_due);
  count_news_locked();
  return is_kept;
}

// Deaths are reported by notice_failures(). That a peer took leave is no error, unless it was still
// needed: then it is one, once.
void channel::miss(int rank) noexcept {
  if (shared.has_died(rank)) return;
  {
    const std::lock_guard lock(lists_lock_);
    if (missed_[static_cast<std::size_t>(rank)]) return;
    missed_[static_cast<std::size_t>(rank)] = true;
  }
  if (keep_gone(rank)) return;
  {
    const std::lock_guard lock(lists_lock_);
    missed_[static_cast<std::size_t>(rank)] = false;
    to_miss_[static_cast<std::size_t>(rank)] = true;
  }
  look_again();
}

// What there was no memory for is done in the next round.
void channel::look_again() noexcept {
  const std::lock_guard lock(lists_lock_);
  is_to_look_again_ = true;
  seen_epoch_.store(LOOK_AGAIN, std::memory_order_relaxed);
}

bool channel::is_lost(int rank) noexcept {
  if (shared.is_gone(rank)) return true;
  const std::lock_guard lock(lists_lock_);
  return missed_[static_cast<std::size_t>(rank)];
}

// Of a rank that took leave, once, when nothing of it is on its way any more.
void channel::end_receives_from(int rank) noexcept {
  std::atomic<parting>& how = parted_[static_cast<std::size_t>(rank)];
  parting before = parting::not_yet;
  // edge channel.parting: partner is parted_from(), by way of the lock of the matching engine for
  // what is filed meanwhile.
  if (!how.compare_exchange_strong(before, parting::begun, std::memory_order_acq_rel)) return;
  const std::size_t ended = end_receives(take_lost(rank));
  how.store(parting::over, std::memory_order_release);  // edge channel.parting
  if (ended != 0) miss(rank);
}

// Those for which only that rank could send, out of all engines.
receive* channel::take_lost(int rank) noexcept {
  receive* taken = nullptr;
  shared.rcomps.for_each_engine([&](matcher& m) { taken = m.take_lost(*this, rank, taken); });
  return taken;
}

// What waits for a rank that is gone will not complete.
void channel::end_what_waits_for(int rank, bool has_died) noexcept {
  on_peer_gone(*this, rank);
  payloads.on_peer_gone(rank);
  staged.on_peer_gone(rank);
  flags.forget(rank);
  offered.forget(rank);
  if (has_died) end_receives(take_lost(rank));
  known_offers.forget(rank);
  if (mem::accelerator* const gpu = shared.gpus.running(); gpu != nullptr) gpu->forget(rank);
  // From the last one: those behind one that another thread removes move to where this looks next.
  std::size_t i;
  {
    const std::lock_guard lock(ports_lock_);
    i = ports_.size();
  }
  while (i-- > 0)
    if (port* const p = port_at(i); p != nullptr) p->forget(rank);
}

// Some peer is gone. Reports each death once per device.
void channel::notice_failures() noexcept {
  const std::uint32_t epoch = shared.failure_epoch();
  {
    const std::lock_guard lock(lists_lock_);
    is_to_look_again_ = false;
  }
  for (int rank = 0; rank < shared.n; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    bool is_to_be_missed;
    {
      const std::lock_guard lock(lists_lock_);
      is_to_be_missed = to_miss_[at];
      to_miss_[at] = false;
    }
    if (is_to_be_missed) miss(rank);
    if (!shared.is_gone(rank)) continue;
    // Once: it may die meanwhile, also after it took leave of another device.
    const end how = shared.has_died(rank) ? end::died : end::left;
    if (how == end::left && shared.is_all_in(rank)) end_receives_from(rank);
    end before;
    bool is_told;
    {
      const std::lock_guard lock(lists_lock_);
      before = reported_[at];
      if (before >= how) continue;
      reported_[at] = how;
      is_told = missed_[at];
    }
    end_what_waits_for(rank, how == end::died);
    if (how != end::died || is_told || keep_gone(rank)) continue;
    {
      const std::lock_guard lock(lists_lock_);
      reported_[at] = before;
    }
    look_again();
  }
  const std::lock_guard lock(lists_lock_);
  if (!is_to_look_again_) seen_epoch_.store(epoch, std::memory_order_relaxed);
}

}  // namespace lci::proto
