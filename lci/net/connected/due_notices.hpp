// What the queues behind a device have still to say: to their sink the ends of operations that
// failed before they were posted, to peers notes that could not be sent at once. Owned by these
// queues. Threads: shared; serve() is the polling thread's. Always true: whatever comes in while it
// is served is due again; a note does not overtake an older one to the same rank that waits here,
// except those of ended registrations that are folded, which come behind all else and withdraw
// more; there is room for more before it is needed, so that no note is lost because memory is short
// for a moment; where no thread serves, ends of registrations are folded into a note for each rank
// whenever the list of notes has grown to LEAST_TO_FOLD, or to twice of what the last fold or
// serve() has left.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "lci/base/platform.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/net/backend.hpp"

namespace lci::net::connected {

// Note: what, of type kind with kind::withdrawn; slot and generation, of a name. One that withdraws
// a name without a generation withdraws all that its sender may have said before.
template <class Note>
class due_notices {
 public:
  // So many notes are listed before those of ended registrations are folded.
  static constexpr std::size_t LEAST_TO_FOLD = 64;

  // Throws std::bad_alloc.
  due_notices() {
    failures_.reserve(SPARE);
    notes_.reserve(SPARE);
    serving_.reserve(SPARE);
  }
  // False: no memory. reason: a literal.
  bool add_failure(int rank, void* context, const char* reason) noexcept {
    {
      const std::lock_guard lock(lock_);
      if (!make_room(failures_)) return false;
      failures_.push_back({rank, context, reason});
      untold_.fetch_add(1, std::memory_order_relaxed);
    }
    raise();
    return true;
  }
  void forget_failures() noexcept {
    const std::lock_guard lock(lock_);
    untold_.fetch_sub(failures_.size(), std::memory_order_relaxed);
    failures_.clear();
  }
  // Once there was no memory for long it is forgotten.
  void add_note(int rank, const Note& what) noexcept {
    {
      const std::lock_guard lock(lock_);
      if (notes_.size() >= fold_at_) fold_locked();
      if (!make_room(notes_)) return;
      notes_.emplace_back(rank, what);
    }
    raise();
  }
  // send(rank, note) sends one; false: not now, and it is sent later. So it is as well where older
  // notes to that rank wait.
  template <class Send>
  void tell(int rank, const Note& what, Send&& send) noexcept {
    if (is_waiting(rank) || !send(rank, what)) add_note(rank, what);
  }
  // Whether notes to that rank wait here.
  bool is_waiting(int rank) noexcept {
    const std::lock_guard lock(lock_);
    const auto is_for = [=](const auto& one) { return one.first == rank; };
    return std::any_of(notes_.begin(), notes_.end(), is_for) ||
           std::any_of(serving_.begin(), serving_.end(), is_for);
  }
  // Something else has to be looked after at the next poll.
  void raise() noexcept {
    is_due_.store(true, std::memory_order_release);  // edge net.due_notices: partner is serve()
  }
  bool is_due() const noexcept { return is_due_.load(std::memory_order_relaxed); }
  // Whether the sink was told of every failure.
  bool are_failures_told() const noexcept {
    return untold_.load(std::memory_order_acquire) ==
           0;  // edge net.due_notices.told: partner is serve()
  }

  // send: as above.
  template <class Send>
  void serve(sink& to, Send&& send) noexcept {
    // edge net.due_notices: partner is raise(). First, so that nothing is overlooked.
    is_due_.exchange(false, std::memory_order_acquire);
    {
      const std::lock_guard lock(lock_);
      // Else those of the last time and newer ones are apart still: see put_back().
      if (serving_.empty()) serving_.swap(notes_);
    }
    std::size_t kept = 0;
    for (const auto& [rank, what] : serving_)
      if (is_among(rank, kept) || !send(rank, what)) keep({rank, what}, kept++);
    if (!serving_.empty()) put_back(kept);
    failure one;
    while (take(one)) {
      to.on_error(one.rank, one.context, one.reason);
      // edge net.due_notices.told: partner is are_failures_told().
      untold_.fetch_sub(1, std::memory_order_release);
    }
  }

 private:
  struct failure {
    int rank;
    void* context;
    const char* reason;
  };
  bool take(failure& out) noexcept {
    const std::lock_guard lock(lock_);
    if (failures_.empty()) return false;
    out = failures_.front();
    failures_.erase(failures_.begin());
    return true;
  }
  // ---- serve(), of the notes ----
  bool is_among(int rank, std::size_t first) const noexcept {
    return std::any_of(serving_.begin(), serving_.begin() + static_cast<std::ptrdiff_t>(first),
                       [=](const auto& one) { return one.first == rank; });
  }
  LCI_COLD void keep(const std::pair<int, Note>& what, std::size_t at) noexcept {
    const std::lock_guard lock(lock_);  // is_waiting() looks at them
    serving_[at] = what;
  }
  // Those that were refused wait again, in front of what has come in meanwhile.
  void put_back(std::size_t refused) noexcept {
    {
      const std::lock_guard lock(lock_);
      serving_.erase(serving_.begin() + static_cast<std::ptrdiff_t>(refused), serving_.end());
      if (refused != 0) join_locked();
      fold_at_ = std::max(LEAST_TO_FOLD, 2 * notes_.size());
      if (serving_.empty() && notes_.empty()) return;
    }
    raise();
  }
  void join_locked() noexcept {
    try {
      serving_.insert(serving_.end(), notes_.begin(), notes_.end());
      serving_.swap(notes_);
      serving_.clear();
    } catch (const std::bad_alloc&) {  // they wait in two lists until the next serve()
    }
  }
  // Registrations end whether the device is polled or not. One note that withdraws all takes the
  // place of those that a rank has still to be told, behind everything else for it.
  LCI_COLD void fold_locked() noexcept {
    const auto withdrawn = std::stable_partition(notes_.begin(), notes_.end(), [](const auto& one) {
      return one.second.what != Note::kind::withdrawn;
    });
    std::sort(withdrawn, notes_.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    notes_.erase(std::unique(withdrawn, notes_.end(),
                             [](const auto& a, const auto& b) { return a.first == b.first; }),
                 notes_.end());
    for (auto one = withdrawn; one != notes_.end(); ++one)
      one->second.slot = one->second.generation = 0;
    fold_at_ = std::max(LEAST_TO_FOLD, 2 * notes_.size());
  }
  static constexpr std::size_t SPARE = 16;  // places that are made before they are needed
  // Under lock_. False: there is no place any more.
  template <class T>
  static bool make_room(std::vector<T>& list) noexcept {
    if (list.size() + SPARE / 2 >= list.capacity()) {
      try {
        list.reserve(2 * list.capacity());
      } catch (const std::bad_alloc&) {  // tried again with the next one
      }
    }
    return list.size() < list.capacity();
  }

  base::spinlock lock_;  // guards the lists
  std::vector<failure> failures_;
  std::vector<std::pair<int, Note>> notes_;
  std::size_t fold_at_ = LEAST_TO_FOLD;        // notes; under lock_
  std::vector<std::pair<int, Note>> serving_;  // changed by the polling thread only
  std::atomic<bool> is_due_{false};
  std::atomic<std::uint64_t> untold_{0};
};

}  // namespace lci::net::connected
