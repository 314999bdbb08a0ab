// One connection: a reliable queue pair to the same device of one peer, with what is posted on it
// and not completed. Callers: connector makes it and connects it; endpoints post; the
// polling thread completes. Threads: post() shared; take_done() the polling thread; the rest under
// the connector's lock. Always true: each work request takes one place until the card is known to
// be done with it, so the send queue never overflows; the last places are for the library, and the
// very last for this backend.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "backends/ibv/thread_domain.hpp"
#include "backends/ibv/wire.hpp"
#include "lci/base/biased_lock.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/connected/connection.hpp"

namespace lci::ibv {

// Names of work requests, so that a failed completion, which says little else, is understood: an
// even number is one of a send queue, an odd one a receive.
constexpr std::uint64_t id_of_send(std::uint64_t number) noexcept { return number << 1; }
constexpr bool is_receive(std::uint64_t id) noexcept { return (id & 1) != 0; }
constexpr std::uint64_t number_of(std::uint64_t id) noexcept { return id >> 1; }

// For whom something was posted.
enum class purpose : std::uint8_t {
  user,        // an operation of the layer above
  keepalive,   // is the peer still there?
  disconnect,  // we leave
  look_up,     // a read of the peer's table; context is the request
  part,        // of a split operation; context is the split
  news         // of a split operation, that all parts are there; the same
};
// How much of the send queue a post may fill.
enum class claim : std::uint8_t {
  user,     // what may be refused: not the share that net_send_reserved_pct keeps
  library,  // messages of the protocols: all but the last places
  ours      // all
};
constexpr claim claim_of(purpose what) noexcept {
  return what == purpose::keepalive || what == purpose::disconnect || what == purpose::look_up
             ? claim::ours
             : claim::user;
}

// Something waits for a work request, or it holds something until it is done. Most small messages
// have no such record.
struct send_record {
  void* context = nullptr;        // for the sink, or a look-up
  mem::packet* packet = nullptr;  // goes back to its pool
  std::uint64_t key = 0;          // registration that was made for it
  purpose what = purpose::user;
  bool in_order = false;  // net_op::in_order
};

class connection : public net::connected::connection {
 public:
  // Places that only we use: disconnect, keepalive, notes and look-ups.
  static constexpr std::uint32_t RESERVE = 4;

  // reserved: places that no user's post gets, RESERVE if it is less, and never all. shared: the
  // lock that all queue pairs of a thread domain have in common; null: its own. home: where the
  // queue pair lives, if it shares that with no other.
  connection(int rank, qp_handle qp, std::uint32_t psn, std::uint32_t depth, std::uint32_t reserved,
             base::biased_lock* shared = nullptr, thread_domain home = {});

  // done: the card has it; retry_*: nothing was posted; fatal: the peer has ended. The card is
  // asked to tell when it is done.
  errorcode_t post(ibv_send_wr& wr, const send_record& what, claim by) noexcept {
    return post(wr, &what, by);
  }
  errorcode_t post(ibv_send_wr& wr, const send_record& what) noexcept {
    return post(wr, &what, claim_of(what.what));
  }
  // The same for what nothing waits for.
  [[gnu::always_inline]] errorcode_t post(ibv_send_wr& wr, claim by) noexcept {
    return post(wr, nullptr, by);
  }
  // Whether such a post would find a place now.
  bool has_room(claim by) const noexcept {
    return next_.load(std::memory_order_relaxed) - done_.load(std::memory_order_relaxed) <
           room_of(by);
  }

  // The card is done with all work requests up to number `last`: takes the oldest record of them.
  // False: there is none left, and their places are free.
  [[gnu::always_inline]] bool take_done(std::uint64_t last, send_record& out,
                                        std::uint64_t& number) noexcept {
    const std::uint64_t at = records_done_.load(std::memory_order_relaxed);
    // edge connection.ring: partner is post().
    const bool is_one =
        at != records_.load(std::memory_order_acquire) && ring_[at & mask_].number <= last;
    const std::uint64_t now = done_.load(std::memory_order_relaxed);
    if (!is_one) {
      // A sink that polled again may have come further.
      if (now <= last) free_places(last + 1);
      return false;
    }
    const entry& found = ring_[at & mask_];
    out = found.what;
    number = found.number;
    records_done_.store(at + 1, std::memory_order_relaxed);
    if (now <= number) free_places(number + 1);
    return true;
  }
  // Waits for a post that is under way.
  void settle() noexcept;
  // Everything that was posted, whether the card is done with it or not.
  // edge connection.next, here and below: partners are post_locked() and undo().
  std::uint64_t last_posted() const noexcept { return next_.load(std::memory_order_acquire) - 1; }
  bool is_idle() const noexcept {
    // edge connection.next
    return done_.load(std::memory_order_relaxed) == next_.load(std::memory_order_acquire);
  }
  // The sink was told of one operation of a user.
  void finish_user() noexcept {
    // edge connection.users: partner is is_drained().
    users_done_.store(users_done_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // No user is told of what is posted. By the only thread that uses the device.
  void forget_users() noexcept;
  // No user waits for anything.
  bool is_drained() const noexcept {
    // In this order: what a sink posts is counted before what it was told of. edge
    // connection.users: partner is finish_user().
    const std::uint64_t done = users_done_.load(std::memory_order_acquire);
    return users_.load(std::memory_order_relaxed) == done && !has_splits();
  }
  // Operations in pieces that are under way to that rank, over this and other cards.
  bool has_splits() const noexcept {
    // edge connection.splits: partner is end_split().
    return splits_.load(std::memory_order_acquire) != 0;
  }
  void begin_split() noexcept { splits_.fetch_add(1, std::memory_order_relaxed); }
  // edge connection.splits: partner is has_splits().
  void end_split() noexcept { splits_.fetch_sub(1, std::memory_order_release); }
  // Puts that are in order, but perhaps not there yet: what takes other cards would pass them.
  bool has_open_puts() const noexcept {
    // edge connection.room: partner is free_places(). Relaxed: the poster sees its own post.
    return done_.load(std::memory_order_acquire) < puts_.load(std::memory_order_relaxed);
  }
  // It may be refused again before that means something.
  void forgive() noexcept { set_refused(0); }

  const thread_domain home;
  const qp_handle qp;
  const std::uint32_t psn;

  // ---- the connector's ----
  std::uint32_t peer_qpn = 0;  // 0: not known yet
  unsigned rails = 1;          // cards that reach the peer, as bits; set before it is ready
  // ---- the polling thread's ----
  bool is_missed = false;   // its process is over; what it sent comes first
  int failed_looks = 0;     // in a row that cannot go on with it; what the peer sent comes first
  bool is_stopped = false;  // the card will flush what is posted

 private:
  struct entry {
    send_record what;
    std::uint64_t number;
  };
  std::uint64_t room_of(claim by) const noexcept { return room_[static_cast<std::size_t>(by)]; }
  // Inlined in any case, here and below: that is a quarter of what a small message costs.
  [[gnu::always_inline]] errorcode_t post(ibv_send_wr& wr, const send_record* what,
                                          claim by) noexcept {
    if (!lock_.try_lock()) [[unlikely]]
      return errorcode_t::retry_lock;
    const errorcode_t code = post_locked(wr, what, by);
    lock_.unlock();
    return code;
  }
  // Under lock_.
  [[gnu::always_inline]] errorcode_t post_locked(ibv_send_wr& wr, const send_record* what,
                                                 claim by) noexcept {
    // Here, so that nothing is posted any more after settle() of a connection that has ended.
    if (state() != stage::ready) [[unlikely]]
      return refusal();
    const std::uint64_t number = next_.load(std::memory_order_relaxed);
    // edge connection.room: partner is free_places().
    if (number - done_.load(std::memory_order_acquire) >= room_of(by)) [[unlikely]]
      return errorcode_t::retry_nomem;
    const bool is_signalled = what != nullptr || number >= next_signal_;
    if (is_signalled) wr.send_flags |= IBV_SEND_SIGNALED;
    wr.wr_id = id_of_send(number);
    if (what != nullptr) {
      enter(*what, number);
      if (what->in_order) puts_.store(number + 1, std::memory_order_relaxed);
    }
    // Before the post, since the completion may be faster than we are. edge connection.next: the
    // record of this number before it; partners are last_posted() and is_idle().
    next_.store(number + 1, std::memory_order_release);
    ibv_send_wr* bad = nullptr;
    if (const int error = ibv_post_send(qp.get(), &wr, &bad); error != 0) [[unlikely]]
      return undo(number, what, error);
    if (is_signalled) next_signal_ = number + batch_;
    return errorcode_t::done;
  }
  void enter(const send_record& what, std::uint64_t number) noexcept;
  errorcode_t undo(std::uint64_t number, const send_record* what, int error) noexcept;
  void free_places(std::uint64_t below) noexcept {
    // edge connection.room: records were read before their places are used again; partner is
    // post_locked().
    done_.store(below, std::memory_order_release);
  }

  // ---- read by all ----
  const std::array<std::uint64_t, 3> room_;  // places, by claim
  const std::uint64_t batch_, mask_;
  base::biased_lock& lock_;
  const std::unique_ptr<entry[]> ring_;
  // ---- posts: written under lock_ ----
  base::biased_lock own_lock_;
  std::atomic<std::uint64_t> next_{0};  // work requests posted
  std::uint64_t next_signal_;           // number of the next that is signalled in any case
  std::atomic<std::uint64_t> records_{0};
  std::atomic<std::uint64_t> users_{0};  // records of users
  std::atomic<std::uint64_t> puts_{0};   // number behind the last put that is in order
  // ---- the polling thread's ----
  alignas(base::CACHE_LINE) std::atomic<std::uint64_t> done_{0};  // below it places are free
  std::atomic<std::uint64_t> records_done_{0};
  std::atomic<std::uint64_t> users_done_{0};
  std::atomic<std::uint32_t> splits_{0};
};

}  // namespace lci::ibv
