#include "lci/proto/engine/pending_errors.hpp"

#include <mutex>
#include <new>
#include <vector>

namespace lci::proto {

namespace {

constexpr std::size_t FIRST_PROBLEMS = 16;

}  // namespace

pending_errors::pending_errors(core& shared)
    : lost(shared.peers), shared_(shared), concerned_(static_cast<std::size_t>(shared.n)) {
  problems_.reserve(FIRST_PROBLEMS);
}

void pending_errors::count_locked() noexcept {
  const bool has_problems = !problems_.empty() || was_problem_lost_;
  has_problems_.store(has_problems, std::memory_order_relaxed);
  has_any_.store(has_problems || lost.any(), std::memory_order_relaxed);
}

void pending_errors::keep(std::exception_ptr problem) noexcept {
  const std::lock_guard lock(lock_);
  try {
    problems_.push_back(std::move(problem));
  } catch (const std::bad_alloc&) {
    was_problem_lost_ = true;
  }
  count_locked();
}

std::exception_ptr pending_errors::newest() noexcept {
  const std::lock_guard lock(lock_);
  return problems_.empty() ? nullptr : problems_.back();
}

void pending_errors::take_away(const std::exception_ptr& problem) noexcept {
  const std::lock_guard lock(lock_);
  std::erase(problems_, problem);
  count_locked();
}

void pending_errors::rethrow() {
  std::exception_ptr first;
  {
    const std::lock_guard lock(lock_);
    if (problems_.empty() && !was_problem_lost_) return;
    // One at a time: each problem reaches a caller.
    if (!problems_.empty()) {
      first = problems_.front();
      problems_.erase(problems_.begin());
    } else {
      was_problem_lost_ = false;
    }
    count_locked();
  }
  if (!first) throw std::bad_alloc();
  std::rethrow_exception(first);
}

// A failure comes before other problems of the round: it is the cause of many.
void pending_errors::tell() {
  const bool is_silent = lost.is_silent_here();
  int rank = is_silent ? losses::NONE : lost.take(true);
  if (rank == losses::NONE) {
    if (has_problems()) rethrow();
    if (!is_silent) rank = lost.take(false);
  }
  if (rank == losses::NONE) return;
  {
    const std::lock_guard lock(lock_);
    count_locked();
  }
  shared_.peers.throw_ended(rank);
}

void pending_errors::throw_loss(std::uint32_t number) {
  shared_.peers.throw_ended(lost.tell(number));
}

void pending_errors::concern(int rank) noexcept {
  const std::lock_guard lock(lock_);
  concerned_[static_cast<std::size_t>(rank)] = true;
  lost.call_for(rank);
  count_locked();
}

bool pending_errors::add_loss(int rank) noexcept {
  const std::lock_guard lock(lock_);
  const bool is_due = shared_.failure_notice == attr_failure_notice_t::all ||
                      needs_all_.load(std::memory_order_relaxed) != 0 ||
                      concerned_[static_cast<std::size_t>(rank)];
  const bool is_kept = lost.add(rank, is_due);
  count_locked();
  return is_kept;
}

}  // namespace lci::proto
