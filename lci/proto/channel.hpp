// The moving part of a device: what was posted on it, what arrived, and progress().
//
//   channel  one per device: polls the backend, runs arrivals, finishes operations
//   port     one per endpoint: posts to the backend, keeps the backlog of what it refused
//
// Owned by the runtime's device and endpoint objects. Threads: shared; arrivals run in the one
// thread that got into the backend's poll().
#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "lci/base/counters.hpp"
#include "lci/base/report.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/comp/kind.hpp"
#include "lci/data/slot_table.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/net/backend.hpp"
#include "lci/proto/backlog.hpp"
#include "lci/proto/core.hpp"
#include "lci/proto/handler_queue.hpp"
#include "lci/proto/losses.hpp"
#include "lci/proto/network_key.hpp"
#include "lci/proto/offers.hpp"
#include "lci/proto/op.hpp"
#include "lci/proto/payloads.hpp"
#include "lci/proto/rendezvous.hpp"
#include "lci/proto/staged.hpp"
#include "lci/types.hpp"

namespace lci::proto {

class port {
 public:
  // spares: see backlog. Throws std::bad_alloc.
  port(channel& owner, std::unique_ptr<net::endpoint> end, std::size_t spares = SPARES)
      : via(owner), log(spares), end_(std::move(end)) {}
  void attach(std::unique_ptr<net::endpoint> end) noexcept { end_ = std::move(end); }

  net::endpoint& end() noexcept { return *end_; }
  // Sends a message of the protocols themselves: it may not be refused, so it waits in the backlog
  // if need be. Where there is no memory even for that, progress tells.
  template <class Body>
  void send_control(int rank, std::uint32_t imm, const Body& body) noexcept {
    send_control_bytes(rank, imm, &body, wire::length_of(body));
  }
  void send_control_bytes(int rank, std::uint32_t imm, const void* body, std::size_t size) noexcept;
  // The same for a caller that can come again. False: there is no memory, and nothing was sent.
  template <class Body>
  bool accept_control(int rank, std::uint32_t imm, const Body& body) noexcept {
    static_assert(sizeof(Body) <= backlog_entry::BODY_BYTES);
    return accept_bytes(rank, imm, &body, wire::length_of(body));
  }
  // Same, but may be refused: for the first message of an operation that can still answer retry.
  template <class Body>
  errorcode_t try_control(int rank, std::uint32_t imm, const Body& body) noexcept {
    if (log.pending(rank)) return errorcode_t::retry_backlog;
    return end_->send_inline(rank, imm, nullptr, 0, &body, wire::length_of(body));
  }
  // Posts the next piece(s) of a transfer. posted: under way; done: finished, the caller ends it;
  // retry: nothing of this piece was posted.
  errorcode_t advance(transfer& move) noexcept;
  // advance() for a transfer nobody waits for in a call: if refused it is parked and progress goes
  // on with it.
  void start(transfer& move) noexcept;
  // A transfer has come to its end, in one way or the other: tells the target and the user.
  void conclude(transfer& move) noexcept;
  // Tells the target that a finished transfer is there, if that did not travel with the data.
  // False: there is no memory to do so.
  bool announce(const transfer& move) noexcept;
  // Leaves an operation to progress. Throws std::bad_alloc: nothing has changed.
  void queue(int rank, std::unique_ptr<backlog_entry>&& entry);
  // Drops what waits for a rank that is gone; -1: everything.
  void forget(int rank) noexcept;
  // Called by the backlog: true if the entry was taken. ended: set to a transfer that is over
  // already, which is to be concluded without the backlog's lock.
  bool try_entry(int rank, backlog_entry& entry, transfer*& ended) noexcept;

  channel& via;
  backlog log;

 private:
  static constexpr std::size_t SPARES = 4;
  bool accept_bytes(int rank, std::uint32_t imm, const void* body, std::size_t size) noexcept;
  void refused(transfer& move) noexcept;
  std::unique_ptr<net::endpoint> end_;
};

class channel {
 public:
  // Events taken from the backend in one progress call.
  static constexpr std::size_t MAX_POLLS = 32;
  // Rounds of progress between looks at what the bootstrap knows.
  static constexpr std::uint32_t LOOK_EVERY = 128;

  channel(core& shared, net::fabric& fabric, int index, const net::device_config& wanted,
          mem::packet_pool& pool, std::size_t max_piece);
  ~channel();
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;

  std::unique_ptr<port> make_port() {
    return std::make_unique<port>(*this, device_->make_endpoint());
  }
  void add_port(port& p);
  void remove_port(port& p);

  net::device& device() noexcept { return *device_; }

  // One round of progress. done: something happened. Throws what handlers threw, truncation_error,
  // and peer_failure_error once per dead peer.
  errorcode_t progress();
  // The same for a call that waits, which looks at `lost` by itself: throws no peer_failure_error.
  errorcode_t progress_in_wait();
  // Looks whether peers are gone, for a call that waits and makes no progress.
  void look_for_gone() noexcept {
    if (shared.failure_epoch() != seen_epoch_.load(std::memory_order_relaxed)) [[unlikely]]
      notice_failures();
  }
  // Tells of an entry of `lost` in a call that waits.
  [[noreturn]] LCI_COLD void throw_loss(std::uint32_t number);
  // True when everything posted here has completed, receives included.
  bool is_drained() const noexcept;
  // True when nothing is under way; receives may still wait for messages that were not sent.
  bool is_quiet() const noexcept;
  // The same of operations alone: not of handlers that wait for their turn, nor of the network.
  bool is_quiet_but_for_handlers() const noexcept;
  bool is_drained_but_for_handlers() const noexcept {
    return open_receives.sum() == 0 && is_quiet_but_for_handlers();
  }

  // An operation has ended: signals its object unless it failed, gives back what it held. Any
  // thread.
  void finish(transfer& move) noexcept;
  // finish(), but from inside a later progress call, for operations whose answer was already given
  // as posted.
  void finish_later(transfer& move) noexcept;
  void park(transfer& move) noexcept;
  // Delivers a status; what user code throws is kept for the end of the progress call. User code
  // may have to wait for its turn (handlers). is_completion: of an operation posted here, and not
  // of an arrival.
  void signal(comp_impl_t* to, const status_t& status, bool is_completion = true,
              news what = news::operation) noexcept {
    if (handlers.open_to() < handler_depth::now() && comp::runs_user_code(*to)) [[unlikely]]
      return signal_in_turn(*to, status, is_completion, what);
    signal_now(to, status, what, is_completion);
  }
  // The same to an object that was given a while ago, and had that serial number then.
  void signal_given(comp_impl_t* to, std::uint32_t serial, const status_t& status,
                    bool is_completion, news what) noexcept {
    if (to->attr.serial != serial) [[unlikely]]
      return keep_freed(to, status, what);
    signal(to, status, is_completion, what);
  }
  // Another object is in its place, or none: it was freed before.
  LCI_COLD void keep_freed(const comp_impl_t* to, const status_t& status, news what) noexcept;
  // The same, but whatever waits. What a completion queue has no memory for it gets in a later
  // round.
  void signal_now(comp_impl_t* to, const status_t& status, news what = news::operation,
                  bool is_completion = false) noexcept;
  LCI_COLD void keep(std::exception_ptr problem) noexcept;
  // The same for one whose words have to be put together: make() answers the exception. Without
  // memory for them std::bad_alloc is kept.
  template <class Make>
  LCI_COLD void keep_made(Make&& make) noexcept {
    std::exception_ptr made;
    try {
      made = std::make_exception_ptr(make());
    } catch (...) {
      made = std::current_exception();
    }
    keep(std::move(made));
  }
  // The end of a user's operation: signals its object, or fail().
  void tell(const user_side& user, bool ok) noexcept {
    if (!ok) [[unlikely]]
      fail(user);
    else if (user.comp != nullptr)
      signal_given(user.comp, user.serial, user.status, true, user.what);
  }
  // Sends one of the messages of GPU memory, unless nobody is there any more.
  template <class Body>
  void say(int rank, wire::staged_kind what, const Body& body) noexcept {
    if (!shared.is_gone(rank)) control.send_control(rank, wire::staged_imm(what), body);
  }
  // The operation of this user has failed; why was kept, or is about to be. Its object is not
  // signalled (api 6.13), but a call that waits for it ends; one that waits for a synchronizer only
  // if the peer is gone. An object of the library is told.
  LCI_COLD void fail(const user_side& user) noexcept;
  // Throws the oldest problem that was kept, if any.
  LCI_COLD void rethrow_kept();
  // An operation has failed because `rank` is gone.
  LCI_COLD void miss(int rank) noexcept;
  // A receive and the request that has met it: there was no memory to answer. A later round does.
  LCI_COLD void answer_later(receive& to, message& request) noexcept;
  // An operation posted here was with `rank`, which is lost: progress tells of it.
  LCI_COLD void concern(int rank) noexcept;
  // A collective without a call that waits has begun (1) or ended (-1): it needs all ranks, so that
  // progress tells of every loss.
  void need_all(int change) noexcept { needs_all_.fetch_add(change, std::memory_order_relaxed); }
  // The network has said that nothing more comes from `rank` on this device.
  void note_end(int rank) noexcept;
  bool has_all_of(int rank) const noexcept {
    return has_ended_[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed) ||
           !device_->may_bring(rank);
  }
  // What becomes of receives from a rank that took leave: when all that it had sent is in, those
  // that are left here end.
  enum class parting : std::uint8_t { not_yet, begun, over };
  // edge channel.parting: partner is end_receives_from().
  parting parted_from(int rank) const noexcept {
    return parted_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire);
  }
  // It is gone, or an operation has failed as if it were.
  LCI_COLD bool is_lost(int rank) noexcept;

  core& shared;
  net::fabric& fabric;
  mem::packet_pool& pool;
  const std::size_t max_piece;         // bytes of one network operation, as was wished
  net::device_config config;           // what the network's device has; immutable after open
  port control;                        // for what the protocols send by themselves
  base::thread_counter open;           // sends, puts and gets posted and not completed
  base::thread_counter open_receives;  // receives posted and not completed
  base::thread_counter late;           // small arrivals that a GPU is fetching
  base::thread_counter dropped;        // arrivals that did not parse or named nothing; statistics
  losses lost;                         // peers that died, or left too early
  bool rdv_by_immediate = true;  // rendezvous ends with immediate data where the network has it
                                 // (attribute rdv_protocol)
  rendezvous_states rendezvous;
  staged_transfers staged{*this};
  awaited_flags flags{*this};
  offers offered{*this};
  peer_offers known_offers{*this};
  payload_arrivals payloads{*this};
  attr_gpu_path_t way = attr_gpu_path_t::auto_select;
  handler_queue handlers{*this, shared.max_handler_depth};

  // A post is about to answer retry. Statistics: threads that count at once may lose some.
  LCI_COLD void refuse(int rank, errorcode_t why) noexcept;

  // Adds what is under way here to a report. In a signal handler: see proto/who_waits.
  void report(base::report::sheet& to) noexcept;

  // Something waits for a later round of progress (or waits no more, -1).
  void expect_leftovers(int change) noexcept {
    backlogged_.fetch_add(static_cast<std::size_t>(change), std::memory_order_relaxed);
  }

 private:
  friend class port;
  // Signals that one round lets have the turn that they waited for.
  static constexpr std::size_t MAX_TURNS = 2 * MAX_POLLS;
  std::size_t advance();
  LCI_COLD void signal_in_turn(comp_impl_t& to, const status_t& status, bool is_completion,
                               news what) noexcept;
  errorcode_t answer(std::size_t work) noexcept;
  errorcode_t rest() noexcept;
  void look_out() noexcept;
  // Anything left by earlier rounds? One test, because every round asks.
  bool has_leftovers() const noexcept {
    return (reinterpret_cast<std::uintptr_t>(finished_.first.load(std::memory_order_relaxed)) |
            reinterpret_cast<std::uintptr_t>(parked_.first.load(std::memory_order_relaxed)) |
            backlogged_.load(std::memory_order_relaxed) | handlers.size()) != 0 ||
           shared.gpus.is_busy();
  }
  std::size_t do_leftovers();
  std::size_t move_streams();
  // Null: there are fewer.
  port* port_at(std::size_t i) noexcept {
    const std::lock_guard lock(ports_lock_);
    return i < ports_.size() ? ports_[i] : nullptr;
  }
  std::size_t drain_backlogs() noexcept;
  std::size_t advance_parked();
  std::size_t deliver_finished();
  std::size_t serve_answers() noexcept;
  LCI_COLD void notice_failures() noexcept;
  void end_what_waits_for(int rank, bool has_died) noexcept;
  void look_again() noexcept;
  bool keep_gone(int rank) noexcept;
  void end_receives_from(int rank) noexcept;
  receive* take_lost(int rank) noexcept;
  LCI_COLD void tell_news();
  void count_news_locked() noexcept;

  std::unique_ptr<net::device> device_;
  std::vector<port*> ports_;  // under ports_lock_
  base::spinlock ports_lock_;
  base::spinlock lists_lock_;  // guards the lists and problems_
  // Entries in the backlogs of all ports, and what else waits for slots, packets or memory.
  std::atomic<std::size_t> backlogged_{0};
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
  message* answers_ = nullptr;       // to be given later, through pool_next; under lists_lock_
  std::vector<std::exception_ptr> problems_;  // has room for some from the start
  bool was_problem_lost_ = false;             // there was no memory to keep another one
  std::atomic<bool> has_problems_{false};
  std::atomic<bool> has_news_{false};     // problems, or lost peers that progress has to tell of
  std::atomic<std::uint32_t> rounds_{0};  // of progress, roughly
  std::atomic<std::uint32_t> idle_{0};    // empty rounds in a row
  // Of core::failure_epoch(); LOOK_AGAIN: what there was no memory for is still to be done.
  static constexpr std::uint32_t LOOK_AGAIN = ~std::uint32_t{0};
  std::atomic<std::uint32_t> seen_epoch_{0};
  enum class end : std::uint8_t { none, left, died };
  std::vector<end> reported_;      // by rank: what it leaves behind was ended; under lists_lock_
  std::vector<bool> missed_;       // by rank: `lost` has it, dead or not; under lists_lock_
  std::vector<bool> to_miss_;      // by rank: it should, and there was no memory; under lists_lock_
  bool is_to_look_again_ = false;  // likewise
  // By rank: an operation posted here was lost with it; under lists_lock_.
  std::vector<bool> concerned_;
  std::atomic<int> needs_all_{0};
  // By rank, both. A rank's end is noted before core.gone, whose edge brings it to who asks.
  std::vector<std::atomic<bool>> has_ended_;
  std::vector<std::atomic<parting>> parted_;
  // By reason, from errorcode_t::retry_min on; and whom the last of these was for.
  static constexpr std::size_t REASONS = 8;
  struct refusal_count {
    std::atomic<std::uint64_t> times{0};
    std::atomic<int> rank{-1};
  };
  std::array<refusal_count, REASONS> refusals_;
};

// What to send along with the name of a registration of ours, to that rank.
inline wire::target target_of(channel& via, int rank, wire::name region) noexcept {
  if (!via.fabric.caps_of(rank).needs_keys) return {};
  const net::remote_target at = via.fabric.target_of({region.slot, region.generation});
  return {at.address, at.key, at.more};
}
inline net::remote_target read_target(const wire::target& at) noexcept {
  return {at.address, at.key, at.more};
}

// Whether what leads to that rank reads and writes such memory itself. If not, GPUs copy, or it is
// staged. Of GPU memory only once it is registered, which may fail for one buffer and not for the
// next.
inline bool is_for_network(const channel& via, int rank, mem::mem_kind kind) noexcept {
  return may_register(via.fabric.caps_of(rank), via.way, kind);
}
inline bool is_for_network(const channel& via, const send_plan& plan) noexcept {
  return !plan.off_network && is_for_network(via, plan.rank, plan.kind);
}
inline bool is_for_network(const channel& via, int rank, const net::remote_view& there) noexcept {
  return !there.off_network && is_for_network(via, rank, there.kind);
}
// The registration of a buffer for one operation with that rank. Throws what network_key throws.
inline network_key key_for(const channel& via, int rank, void* address, std::size_t size,
                           mem::mem_kind kind) {
  return {via.fabric, via.fabric.caps_of(rank), via.way, address, size, kind};
}

}  // namespace lci::proto
