// The peers that a device has lost: that failed, or left while an operation still needed them; and
// which threads were told. Which of the two stands in net::peer_table.
//
// Calls that wait compare count() with what begin_wait() answered when they began, so each of them
// ends, in whatever thread the news came. progress() asks take(): it reports each peer once, in a
// thread that no waiting call has told before, so that a thread which does nothing but progress is
// told of it although others wait. With attribute failure_notice `own` it tells only of those that
// were added as due, or called for since. Owned by pending_errors. Threads: shared.
//
// Always true: the list only grows, and count() is published after what it counts; take() answers
// each peer once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lci/base/platform.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/base/thread_id.hpp"
#include "lci/net/peer_table.hpp"

namespace lci::proto {

class losses {
 public:
  static constexpr int NONE = -1;

  explicit losses(const net::peer_table& peers) noexcept : peers_(peers) {}

  // edge losses.count, reader: what was done about a peer before it was added.
  std::uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  // is_due: progress() is to report it. False: there is no memory, and nothing has changed.
  bool add(int rank, bool is_due = true) noexcept;
  // What was added of that rank is due from now on.
  void call_for(int rank) noexcept;
  // The first entry that is to end a call that waits from now on in the calling thread: count(), or
  // less when it owes.
  std::uint32_t begin_wait() noexcept { return count() == 0 ? 0 : first_owed(); }
  // The entries from this number on were added while a call of the calling thread waited. Those of
  // which it did not tell are for the next one.
  LCI_COLD void put_back(std::uint32_t number) noexcept;
  // The rank of an entry that was counted, of which a call tells the calling thread.
  int tell(std::uint32_t number) noexcept;
  // A call of the calling thread ends by itself because that rank has ended.
  void heard(int rank) noexcept;
  // A rank that progress() in the calling thread is to report, failed or not, or NONE.
  int take(bool has_failed) noexcept;

  // take() would answer a peer.
  bool any() const noexcept { return waiting_.load(std::memory_order_relaxed) != 0; }
  // take() has nothing for the calling thread. False also where that would have to be looked up.
  bool is_silent_here() const noexcept {
    return !any() || silent_for_.load(std::memory_order_relaxed) == base::thread_serial();
  }

 private:
  static constexpr std::uint64_t NOBODY = 0;
  static constexpr std::size_t MOST_TOLD = 1024;
  static constexpr std::uint32_t NO_DEBT = ~std::uint32_t{0};
  struct entry {
    int rank;
    bool is_due = true;
    bool is_taken = false;
    std::vector<std::uint64_t> told;  // threads

    bool is_told_to(std::uint64_t thread) const noexcept;
    void tell(std::uint64_t thread) noexcept;
  };
  // Of the entries from `next` on, `thread` is to be told by the next call that waits.
  struct debt {
    std::uint64_t thread;
    std::uint32_t next;
  };
  LCI_COLD std::uint32_t first_owed() noexcept;

  const net::peer_table& peers_;
  base::spinlock lock_;  // guards all below; the atomics are read without
  std::vector<entry> entries_;
  std::vector<debt> debts_;                        // one a thread at most
  std::uint32_t owed_to_any_ = NO_DEBT;            // for whose debts there was no memory
  std::atomic<std::uint32_t> count_{0};            // of entries
  std::atomic<std::uint32_t> waiting_{0};          // entries that are due and not taken
  std::atomic<std::uint64_t> silent_for_{NOBODY};  // a thread that was told of all that waits
};

}  // namespace lci::proto
