// The moving part of a device: polls the backend, brings operations to their end, and does what
// earlier rounds have left. What messages mean is not known here: those above take what arrives,
// register control messages in `dispatch`, and hang parts in.
//
// Owned by the device's queues. Threads: shared; arrivals run in the one thread that got into the
// backend's poll(), plain messages also beside it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lci/base/counters.hpp"
#include "lci/base/report.hpp"
#include "lci/base/spin.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/config.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/net/backend.hpp"
#include "lci/proto/engine/control_dispatch.hpp"
#include "lci/proto/engine/core.hpp"
#include "lci/proto/engine/handler_queue.hpp"
#include "lci/proto/engine/op.hpp"
#include "lci/proto/engine/part.hpp"
#include "lci/proto/engine/peer_watch.hpp"
#include "lci/proto/engine/pending_errors.hpp"
#include "lci/proto/engine/post_queue.hpp"
#include "lci/proto/engine/signaller.hpp"

namespace lci::proto {

class progress_engine final : public member, private peer_watch::listener {
 public:
  // Events taken from the backend in one progress call.
  static constexpr std::size_t MAX_POLLS = std::min<std::size_t>(32, LCI_BACKEND_MAX_POLLS);
  // Rounds of progress between looks at the clock and at what the bootstrap knows.
  static constexpr std::uint32_t LOOK_EVERY = 128;

  progress_engine(core& shared, net::fabric& fabric, int index, const net::device_config& wanted,
                  mem::packet_pool& pool, std::size_t max_piece);
  progress_engine(const progress_engine&) = delete;
  progress_engine& operator=(const progress_engine&) = delete;

  // Before enter(); asked in this order.
  void add_part(part& one) { parts_.push_back(&one); }
  // With all its parts it becomes one of the runtime's devices; before they go it leaves.
  void enter() { shared.enter(*this); }
  void leave() noexcept { shared.leave(*this); }
  // The queue of a new endpoint: one that was given back if there is one, so that endpoints which
  // come and go do not add up. Like the end of the loan in one thread at a time.
  lent_queue lend_queue();
  // What was posted with it goes on, and what waits in it is still posted.
  void take_back(post_queue& one) noexcept;
  // The device ends: what waits in those queues will not be posted any more.
  void forget_backlogs() noexcept;

  net::device& device() noexcept { return *device_; }
  bool is_network_drained() const noexcept { return device_->is_drained(); }
  // There was a round of progress.
  bool has_advanced() const noexcept { return rounds_.sum() != 0; }

  // A round of progress, without what it has to throw; answers how much was done. make_sink(depth)
  // makes the net::sink that gets what arrives, and is told by end() that this is all.
  template <class MakeSink>
  std::size_t advance(MakeSink&& make_sink);
  // What progress() answers after a round.
  errorcode_t answer(std::size_t work) noexcept {
    if (work != 0) [[likely]] {
      // Only where rest() counts: other threads read what is beside it in each round.
      if (idle_.load(std::memory_order_relaxed) != 0) [[unlikely]]
        idle_.store(0, std::memory_order_relaxed);
      return errorcode_t::done;
    }
    if (base::spin_wait::is_oversubscribed()) [[unlikely]]
      rest();
    return errorcode_t::retry;
  }

  // Nothing is under way; receives may still wait for messages that were not sent. Not asked: the
  // handlers that wait for their turn, and the network.
  bool is_quiet_but_for_handlers() const noexcept;

  // A transfer has failed, wherever it was: its protocol does what is left to do, and it ends.
  LCI_COLD void abort(transfer& move) noexcept;
  // A transfer has ended: signals its object unless it failed, gives back what it held. Any thread.
  void finish(transfer& move) noexcept;
  // finish(), but from inside a later progress call, for operations whose answer was already given
  // as posted.
  void finish_later(transfer& move) noexcept;
  void park(transfer& move) noexcept;
  // Sends a message of the protocols, unless the peer is not there any more.
  template <class Body>
  void say(int rank, wire::kind what, const Body& body) noexcept {
    if (!watch.has_ended(rank)) control.send_control(rank, what, body);
  }
  // A post is about to answer retry. Statistics: threads that count at once may lose some, and the
  // last 63 of a thread may be missing.
  LCI_COLD void refuse(int rank, errorcode_t why) noexcept;
  // Bytes of one piece of a transfer over such a network.
  std::size_t piece_of(const net::capabilities& can) const noexcept {
    return std::min({max_piece, can.max_rma, can.best_rma});
  }
  // Something waits for a later round of progress (or waits no more, -1).
  void expect_leftovers(int change) noexcept {
    leftovers_.fetch_add(static_cast<std::size_t>(change), std::memory_order_relaxed);
  }

  core& shared;
  net::fabric& fabric;
  const int index;  // of the network's device
  mem::packet_pool& pool;
  const std::size_t max_piece;  // bytes of one network operation, as was wished
  // Bytes of a message that any packet here takes with its head, and any network in one piece.
  const std::size_t max_copy;
  // Bytes of an active message that arrives in a packet where its receiver wants that: the answer
  // of get_max_bcopy_size(). Code decides by the size how to give a buffer back, so the way that
  // the message took must not show.
  const std::size_t max_in_packet;
  net::device_config config;  // what the network's device has; immutable after open
  pending_errors errors;
  peer_watch watch;
  signaller signals;
  handler_queue handlers;

 private:
  // With the ends of handlers and watch, what every round reads: on few lines.
  // Entries in the backlogs of all queues, in parked_ and in finished_, and what else waits for
  // slots, packets or memory.
  std::atomic<std::size_t> leftovers_{0};
  net::device* polled_ = nullptr;       // device_, which has to end before what is above
  std::atomic<std::uint32_t> idle_{0};  // empty rounds in a row

 public:
  control_dispatch dispatch;
  post_queue control;            // for what the protocols send by themselves
  base::thread_counter open;     // sends, puts and gets posted and not completed
  base::thread_counter dropped;  // arrivals that did not parse or named nothing; statistics

 private:
  // Signals that one round lets have the turn that they waited for.
  static constexpr std::size_t MAX_TURNS = 2 * MAX_POLLS;
  bool has_all_of(int rank) const noexcept override {
    return watch.has_all_of(rank) || !device_->may_bring(rank);
  }
  const net::fabric& network() const noexcept override { return fabric; }
  bool hear_callers() noexcept override { return fabric.hear_callers(); }
  void report(base::report::sheet& to) noexcept override;
  void end_what_waits_for(int rank, peer_end how) noexcept override;
  bool end_what_stays_from(int rank) noexcept override;

  LCI_COLD void rest() noexcept;
  void look_out() noexcept;
  LCI_COLD void look_around() noexcept;
  // Anything left by earlier rounds? One test, because every round asks.
  bool has_leftovers() const noexcept {
    return (leftovers_.load(std::memory_order_relaxed) | handlers.size() | shared.under_way()) != 0;
  }
  std::size_t do_leftovers();
  // Null: there are fewer.
  post_queue* queue_at(std::size_t i) noexcept {
    const std::lock_guard lock(queues_lock_);
    return i < queues_.size() ? queues_[i] : nullptr;
  }
  std::size_t drain_backlogs() noexcept;
  std::size_t advance_parked();
  std::size_t deliver_finished();

  std::unique_ptr<net::device> device_;
  std::vector<part*> parts_;
  std::vector<std::unique_ptr<post_queue>> made_queues_;  // those of endpoints
  std::vector<post_queue*> free_queues_;  // of these, those that no endpoint has; has room for all
  std::vector<post_queue*> queues_;       // all that there are; only grows; under queues_lock_
  base::spinlock queues_lock_;
  base::spinlock lists_lock_;  // guards the lists
  // Oldest first; the heads are looked at without the lock.
  struct transfer_list {
    std::atomic<transfer*> first{nullptr};
    transfer* last = nullptr;
    void append_locked(transfer& move) noexcept;
    transfer* take_locked() noexcept;
    bool any() const noexcept { return first.load(std::memory_order_relaxed) != nullptr; }
  };
  transfer* take(transfer_list& from) noexcept;
  transfer_list finished_, parked_;  // changed under lists_lock_
  // By reason, from errorcode_t::retry_min on; and whom the last of these was for. On a line that
  // rounds do not read.
  static constexpr std::size_t REASONS = 8;
  struct refusal_count {
    std::atomic<std::uint64_t> times{0};
    std::atomic<int> rank{-1};
  };
  alignas(base::CACHE_LINE) std::array<refusal_count, REASONS> refusals_;
  base::thread_counter rounds_;  // of progress
};

// Now and then, busy or not.
inline void progress_engine::look_out() noexcept {
  if (rounds_.count_up() % LOOK_EVERY == 0) [[unlikely]]
    look_around();
}

template <class MakeSink>
inline std::size_t progress_engine::advance(MakeSink&& make_sink) {
  const handler_depth here;
  no_progress_here::check(here.value());
  std::size_t work = 0;
  if (has_leftovers()) [[unlikely]]
    work += do_leftovers();
  auto sink = make_sink(here.value());
  work += polled_->poll(sink, MAX_POLLS);
  sink.end();
  look_out();
  watch.look_for_ended();
  return work;
}

}  // namespace lci::proto
